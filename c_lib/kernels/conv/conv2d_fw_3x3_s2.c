/* Forward 3 x 3 convolution of stride 2, with contiguous weights. */
#include "tl_conv_share.h"

void tl_conv2d_fw_3x3_s2_f32(const tl_conv2d *a)
{
    tl_conv_fw(a, TL_NEAR_S2, TL_DENSE);
}
