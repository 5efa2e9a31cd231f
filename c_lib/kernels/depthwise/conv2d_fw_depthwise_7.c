/* Depthwise convolution with 7 taps a row. */
#include "tl_plane.h"

void tl_conv2d_fw_depthwise_7_f32(const tl_conv2d *a)
{
    tl_plane_fw(a, 7, 1);
}
