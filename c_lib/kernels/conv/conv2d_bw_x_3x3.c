/* Input gradient of a 3 x 3 convolution of stride 1, over neighbouring pixels. */
#include "tl_conv_packed.h"

static __attribute__((noinline)) void share(const tl_gather *g, int group, int groups, int row0, int tiles, int k0,
                                            int k1, float *own, const float *shared)
{
    tl_conv_share(g, group, groups, row0, tiles, k0, k1, own, shared, TL_NEAR, TL_SHARED);
}

void tl_conv2d_bw_x_3x3_f32(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_w == 1);
    g.y = tl_axis_bw(0, a->h, a->ho, 3, 1, a->pad_h, a->dil_h);
    g.x = tl_axis_bw(0, a->wd, a->wo, 3, 1, a->pad_w, 1);
    tl_conv_run_packed(&g, 9, share);
}
