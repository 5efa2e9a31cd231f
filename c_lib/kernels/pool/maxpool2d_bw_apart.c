/* Gradient of maxima over windows that do not overlap. */
#include "tl_pool_max_bw.h"

void tl_maxpool2d_bw_apart_f32(const tl_pool2d *a)
{
    max_backward_apart(a);
}
