/* Gradient of maxima over any regular windows. */
#include "tl_pool_max_bw.h"

void tl_maxpool2d_bw_f32(const tl_pool2d *a)
{
    max_backward(a, 0, 0);
}
