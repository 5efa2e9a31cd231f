/* Gradient of maxima over windows of neighbouring taps, numbered in a byte. */
#include "tl_pool_max_bw.h"

void tl_maxpool2d_bw_u8_f32(const tl_pool2d *a)
{
    max_backward(a, 0, 1);
}
