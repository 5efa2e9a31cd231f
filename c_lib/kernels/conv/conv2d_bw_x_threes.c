/* Input gradient of a convolution with one tap over dense planes of whole threes of pixels. */
#include "tl_conv_side.h"

void tl_conv2d_bw_x_threes_f32(const tl_conv2d *a)
{
    tl_conv_side(a, 3, 1);
}
