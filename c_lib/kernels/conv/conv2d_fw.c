/* Forward convolution with contiguous weights, inputs by a table of taps. */
#include "tl_conv_share.h"

void tl_conv2d_fw_f32(const tl_conv2d *a)
{
    tl_conv_fw(a, TL_TAPS, TL_DENSE);
}
