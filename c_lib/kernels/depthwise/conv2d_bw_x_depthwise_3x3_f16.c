/* Input gradient of a depthwise 3 x 3 convolution of halves: a convolution of dL/dy by the kernel from its last tap
 * on. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_bw_x_depthwise_3x3_f16(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci;
    tl_half *own = tl_own_copy(a, a->h, a->wd);
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, a->h);
    tl_pair w[12];
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    while (tl_plane_next(&r, a->h)) {
        const int n = r.plane / ins, i = r.plane - n * ins, to = n * a->xp.n + i * a->xp.c + r.row * a->xp.h;
        const int group = i / a->ci, first = group * a->w_co + (i - group * a->ci) * a->w_ci;
        const tl_met_plane p = {.image = a->y_f16 + n * a->yp.n + group * a->yp.c,
                                .pitch = a->yp.h,
                                .h = a->ho,
                                .wd = a->wo,
                                .top = r.row + a->pad_h - 2,
                                .left = a->pad_w - 2,
                                .width = a->wd,
                                .padded = r.again};
        tl_two_columns c = {.w = w, .start = a->bias ? a->bias[i] : 0.0f, .down = a->xp.h, .halves = a->halves};
        c.to = a->halves ? (void *)(a->x_f16 + to) : a->x + to;
        tl_weights_by_twos(a, first + 8, -1, w);
        tl_plane_columns(&p, c, r.end - r.row, own);
    }
}
