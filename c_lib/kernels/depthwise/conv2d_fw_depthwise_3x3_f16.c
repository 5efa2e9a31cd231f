/* Depthwise 3 x 3 convolution of halves. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_fw_depthwise_3x3_f16(const tl_conv2d *a)
{
    const int outs = a->groups * a->co;
    tl_plane_rows r = tl_plane_share(a->team, a->n * outs, a->ho);
    tl_halves_planes p; /* its fields one by one, as a compiler calls memset for one that begins as zeros */
    p.h = a->h, p.wd = a->wd, p.pitch = a->xp.h, p.pad_h = a->pad_h;
    p.width = a->wo, p.down = a->yp.h, p.halves = a->halves, p.own = tl_own_copy(a, a->ho, a->wo, &p.most);
    p.copy.left = -a->pad_w, p.copy.columns = tl_copied_pitch(a->wo);
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    while (tl_plane_next(&r, a->ho)) {
        const int n = tl_part_of(r.plane, a->n, outs), o = r.plane - n * outs;
        const int to = n * a->yp.n + o * a->yp.c + r.row * a->yp.h;
        p.image = a->x_f16 + n * a->xp.n + tl_part_of(o, a->groups, a->co) * a->xp.c;
        p.start = a->bias ? a->bias[o] : 0.0f, p.to = a->halves ? (void *)(a->y_f16 + to) : a->y + to;
        tl_weights_by_twos(a, o * a->w_co, 1, p.w);
        tl_halves_plane(&p, &r);
    }
}
