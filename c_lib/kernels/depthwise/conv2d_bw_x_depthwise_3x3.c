/* Input gradient of a depthwise 3 x 3 convolution of stride 1. */
#define TL_STEP_3X3 1
#define TL_TURNED_3X3 1
#include "tl_depthwise_3x3.inc"

void tl_conv2d_bw_x_depthwise_3x3_f32(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    g.y = tl_axis_bw(0, a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h);
    g.x = tl_axis_bw(0, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w);
    depthwise_3x3(&g);
}
