/* Depthwise weight gradient, any kernel. */
#include "tl_strip.h"

void tl_conv2d_bw_w_depthwise_f32(const tl_conv2d *a)
{
    tl_strip_whole(a);
}
