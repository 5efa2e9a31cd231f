/* Gradient of maxima over windows of halves that cut a plane into pieces. */
#define TL_HALVES
#include "tl_pool_max_bw.h"

void tl_adaptive_maxpool2d_bw_f16(const tl_pool2d *a)
{
    max_backward_each(a, 1);
}
