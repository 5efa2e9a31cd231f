/* Depthwise 3 x 3 convolution of halves. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_fw_depthwise_3x3_f16(const tl_conv2d *a)
{
    tl_halves_planes p;
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    p.images = a->x_f16, p.image_n = a->xp.n, p.image_c = a->xp.c, p.h = a->h, p.wd = a->wd, p.pitch = a->xp.h;
    p.above = a->pad_h, p.left = a->pad_w, p.n = a->n, p.groups = a->groups, p.size = a->co;
    p.w_group = a->co * a->w_co, p.w_inner = a->w_co, p.first = 0, p.step = 1, p.bias = a->bias;
    p.to = a->halves ? (void *)a->y_f16 : a->y, p.to_n = a->yp.n, p.to_c = a->yp.c;
    p.height = a->ho, p.width = a->wo, p.down = a->yp.h;
    tl_halves_outputs(a, &p);
}
