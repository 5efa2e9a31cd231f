/* Depthwise weight gradient, any kernel, split over the sum. */
#include "tl_strip.h"

void tl_conv2d_bw_w_depthwise_split_f32(const tl_conv2d *a)
{
    tl_strip_split(a);
}
