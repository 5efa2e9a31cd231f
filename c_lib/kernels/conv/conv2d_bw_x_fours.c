/* Input gradient of a convolution with one tap over dense planes, more panels of pixels than of channels. */
#include "tl_conv_side.h"

void tl_conv2d_bw_x_fours_f32(const tl_conv2d *a)
{
    tl_conv_side(a, 4, 1);
}
