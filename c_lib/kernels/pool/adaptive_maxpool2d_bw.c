/* Gradient of maxima over windows that cut a plane into pieces. */
#include "tl_pool_max_bw.h"

void tl_adaptive_maxpool2d_bw_f32(const tl_pool2d *a)
{
    max_backward(a, 1, 0);
}
