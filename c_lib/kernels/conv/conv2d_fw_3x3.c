/* Forward 3 x 3 convolution of neighbouring pixels, with contiguous weights. */
#include "tl_conv_share.h"

void tl_conv2d_fw_3x3_f32(const tl_conv2d *a)
{
    tl_conv_fw(a, TL_NEAR, TL_DENSE);
}
