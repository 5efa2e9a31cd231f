/* Forward convolution whose weights are contiguous channel by channel. */
#include "tl_conv_share.h"

void tl_conv2d_fw_apart_f32(const tl_conv2d *a)
{
    tl_conv_fw(a, TL_CLASSES, TL_APART);
}
