/* Input gradient of a depthwise 3 x 3 convolution of halves: a convolution of dL/dy by the kernel from its last tap
 * on. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_bw_x_depthwise_3x3_f16(const tl_conv2d *a)
{
    tl_halves_planes p;
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    p.images = a->y_f16, p.image_n = a->yp.n, p.image_c = a->yp.c, p.h = a->ho, p.wd = a->wo, p.pitch = a->yp.h;
    p.above = 2 - a->pad_h, p.left = 2 - a->pad_w, p.n = a->n, p.groups = a->groups, p.size = a->ci;
    p.w_group = a->w_co, p.w_inner = a->w_ci, p.first = 8, p.step = -1, p.bias = a->bias;
    p.to = a->halves ? (void *)a->x_f16 : a->x, p.to_n = a->xp.n, p.to_c = a->xp.c;
    p.height = a->h, p.width = a->wd, p.down = a->xp.h;
    tl_halves_outputs(a, &p);
}
