/* Input gradient of a depthwise convolution of halves of stride 2. */
#define TL_HALVES
#include "tl_plane_classes.h"

void tl_conv2d_bw_x_depthwise_s2_f16(const tl_conv2d *a)
{
    tl_plane_bw_x_s2(a);
}
