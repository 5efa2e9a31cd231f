/* Input gradient of a depthwise 3 x 3 convolution of halves: a convolution of dL/dy by the kernel from its last tap
 * on. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_bw_x_depthwise_3x3_f16(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci;
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, a->h);
    tl_halves_planes p; /* its fields one by one, as a compiler calls memset for one that begins as zeros */
    p.h = a->ho, p.wd = a->wo, p.pitch = a->yp.h, p.pad_h = 2 - a->pad_h;
    p.width = a->wd, p.down = a->xp.h, p.halves = a->halves, p.own = tl_own_copy(a, a->h, a->wd, &p.most);
    p.copy.left = a->pad_w - 2, p.copy.columns = tl_copied_pitch(a->wd);
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    while (tl_plane_next(&r, a->h)) {
        const int n = tl_part_of(r.plane, a->n, ins), i = r.plane - n * ins, group = tl_part_of(i, a->groups, a->ci);
        const int to = n * a->xp.n + i * a->xp.c + r.row * a->xp.h;
        p.image = a->y_f16 + n * a->yp.n + group * a->yp.c;
        p.start = a->bias ? a->bias[i] : 0.0f, p.to = a->halves ? (void *)(a->x_f16 + to) : a->x + to;
        tl_weights_by_twos(a, group * a->w_co + (i - group * a->ci) * a->w_ci + 8, -1, p.w);
        tl_halves_plane(&p, &r);
    }
}
