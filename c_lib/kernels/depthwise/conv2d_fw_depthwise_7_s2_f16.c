/* Depthwise convolution of halves with 7 taps a row and stride 2. */
#define TL_HALVES
#include "tl_plane.h"

void tl_conv2d_fw_depthwise_7_s2_f16(const tl_conv2d *a)
{
    tl_plane_fw(a, 7, 2);
}
