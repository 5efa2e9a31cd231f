/* Forward convolution with one tap over dense planes, whose results are no whole tiles of channels. */
#include "tl_conv_plane.h"

void tl_conv2d_fw_plane_ragged_f32(const tl_conv2d *a)
{
    tl_conv_plane(a, 0, 1);
}
