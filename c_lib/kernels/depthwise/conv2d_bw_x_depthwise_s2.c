/* Input gradient of a depthwise convolution of stride 2. */
#include "tl_plane_classes.h"

void tl_conv2d_bw_x_depthwise_s2_f32(const tl_conv2d *a)
{
    tl_plane_bw_x_s2(a);
}
