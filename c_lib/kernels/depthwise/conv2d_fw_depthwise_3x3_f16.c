/* Depthwise 3 x 3 convolution of halves. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_fw_depthwise_3x3_f16(const tl_conv2d *a)
{
    const int outs = a->groups * a->co;
    tl_half *own = tl_own_copy(a, a->ho, a->wo);
    tl_plane_rows r = tl_plane_share(a->team, a->n * outs, a->ho);
    tl_pair w[12];
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    while (tl_plane_next(&r, a->ho)) {
        const int n = r.plane / outs, o = r.plane - n * outs, to = n * a->yp.n + o * a->yp.c + r.row * a->yp.h;
        const tl_met_plane p = {.image = a->x_f16 + n * a->xp.n + o / a->co * a->xp.c,
                                .pitch = a->xp.h,
                                .h = a->h,
                                .wd = a->wd,
                                .top = r.row - a->pad_h,
                                .left = -a->pad_w,
                                .width = a->wo,
                                .padded = r.again};
        tl_two_columns c = {.w = w, .start = a->bias ? a->bias[o] : 0.0f, .down = a->yp.h, .halves = a->halves};
        c.to = a->halves ? (void *)(a->y_f16 + to) : a->y + to;
        tl_weights_by_twos(a, o * a->w_co, 1, w);
        tl_plane_columns(&p, c, r.end - r.row, own);
    }
}
