/* Forward convolution with one tap over dense planes of whole threes of pixels. */
#include "tl_conv_side.h"

void tl_conv2d_fw_threes_f32(const tl_conv2d *a)
{
    tl_conv_side(a, 3, 0);
}
