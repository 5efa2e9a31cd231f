/* Input gradient of a depthwise convolution with 7 taps a row. */
#include "tl_plane.h"

void tl_conv2d_bw_x_depthwise_7_f32(const tl_conv2d *a)
{
    tl_plane_bw_x(a, 7);
}
