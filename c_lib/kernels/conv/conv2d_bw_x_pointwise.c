/* Input gradient with one tap, whose weights lie side by side over whole tiles of channels. */
#include "tl_conv_share.h"

/* All outputs begin with their bias: most of them no tap reaches. */
static __attribute__((noinline)) void begin(const tl_conv2d *a)
{
    const int outs = a->groups * a->ci, dense = a->xp.h == a->wd, wide = dense ? a->h * a->wd : a->wd;
    int lo, hi;
    tl_split(a->n * outs, 1, &lo, &hi);
    for (; lo < hi; ++lo) {
        const int n = lo / outs, o = lo - n * outs;
        const float start = (a->bias ? a->bias[o] : 0.0f) + 0.0f;
        float *row = a->x + n * a->xp.n + o * a->xp.c;
        for (int left = dense ? 1 : a->h; left > 0; --left, row += a->xp.h) {
            float *to = row, *end = row + wide;
            for (; to + 4 <= end; to += 4)
                to[0] = to[1] = to[2] = to[3] = start;
            for (; to < end; ++to)
                *to = start;
        }
    }
    tl_barrier();
}

static __attribute__((noinline)) void share(const tl_gather *g, int begun)
{
    const int terms = g->chans * g->y.taps * g->x.taps;
    if (terms == 0 && begun)
        return;
    if (terms == 0)
        tl_conv_fill(g);
    else if (g->n * g->y.count * g->x.count > 0)
        tl_conv_share(g, 0, g->groups, 0, g->rows / 4, 0, terms, (float *)g->scratch + tl_core_id() * tl_conv_own(1),
                      NULL, TL_CLASSES, TL_COLUMNS);
}

void tl_conv2d_bw_x_pointwise_f32(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    TL_PROMISE(a->kh * a->kw == 1 && a->w_ci == 1 && a->ci % 4 == 0);
    const int begun = a->stride_h * a->stride_w > 1 && !a->accumulate;
    if (begun)
        begin(a);
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = tl_axis_bw(ry, a->h, a->ho, 1, a->stride_h, a->pad_h, a->dil_h);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = tl_axis_bw(rx, a->wd, a->wo, 1, a->stride_w, a->pad_w, a->dil_w);
            share(&g, begun);
        }
    }
}
