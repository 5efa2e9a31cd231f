/* Input gradient of a depthwise convolution of halves with 5 taps a row. */
#define TL_HALVES
#include "tl_plane.h"

void tl_conv2d_bw_x_depthwise_5_f16(const tl_conv2d *a)
{
    tl_plane_bw_x(a, 5);
}
