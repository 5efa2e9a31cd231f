/* Input gradient with one tap, whose weights lie side by side over whole tiles of channels. */
#include "tl_conv_share.h"

static __attribute__((noinline)) void share(const tl_gather *g)
{
    const int terms = g->chans * g->y.taps * g->x.taps;
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
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = tl_axis_bw(ry, a->h, a->ho, 1, a->stride_h, a->pad_h, a->dil_h);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = tl_axis_bw(rx, a->wd, a->wo, 1, a->stride_w, a->pad_w, a->dil_w);
            share(&g);
        }
    }
}
