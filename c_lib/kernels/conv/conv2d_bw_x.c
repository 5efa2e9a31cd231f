/* Input gradient, class by class of the output positions modulo the stride. */
#include "tl_conv_packed.h"

static __attribute__((noinline)) void share(const tl_gather *g, int group, int groups, int row0, int tiles, int k0,
                                            int k1, float *own, const float *shared)
{
    tl_conv_share(g, group, groups, row0, tiles, k0, k1, own, shared, TL_CLASSES, TL_SHARED);
}

void tl_conv2d_bw_x_f32(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = tl_axis_bw(ry, a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = tl_axis_bw(rx, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w);
            tl_conv_run_packed(&g, a->kh * a->kw, share);
        }
    }
}
