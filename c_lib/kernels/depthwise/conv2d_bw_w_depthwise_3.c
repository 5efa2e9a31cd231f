/* Depthwise weight gradient, kernels of three neighbouring taps a row. */
#include "tl_strip.h"

void tl_conv2d_bw_w_depthwise_3_f32(const tl_conv2d *a)
{
    tl_strip_whole(a, 1);
}
