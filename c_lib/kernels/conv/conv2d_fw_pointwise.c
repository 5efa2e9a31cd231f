/* Forward convolution with one tap, which neighbouring pixels read where it lies. */
#include "tl_conv_share.h"

void tl_conv2d_fw_pointwise_f32(const tl_conv2d *a)
{
    tl_conv_fw(a, TL_CLASSES, TL_DENSE);
}
