/* Depthwise 3 x 3 convolution, 2 columns from pixel to pixel. */
#define TL_STEP_3X3 2
#define TL_TURNED_3X3 0
#include "tl_depthwise_3x3.inc"

void tl_conv2d_fw_depthwise_3x3_s2_f32(const tl_conv2d *a)
{
    const tl_gather g = tl_gather_fw(a);
    depthwise_3x3(&g);
}
