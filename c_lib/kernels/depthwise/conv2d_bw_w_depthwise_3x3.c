/* Depthwise weight gradient, 3 x 3. */
#define TL_STEP_3X3 1
#include "tl_depthwise_bw_w_3x3.inc"

void tl_conv2d_bw_w_depthwise_3x3_f32(const tl_conv2d *a)
{
    whole(a);
}
