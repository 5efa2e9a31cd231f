/* Depthwise weight gradient, 3 x 3 of stride 2, split over the sum. */
#define TL_STEP_3X3 2
#include "tl_depthwise_bw_w_3x3.inc"

void tl_conv2d_bw_w_depthwise_3x3_s2_split_f32(const tl_conv2d *a)
{
    split(a);
}
