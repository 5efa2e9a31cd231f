/* Gradient of maxima over windows of halves that do not overlap. */
#define TL_HALVES
#include "tl_pool_max_bw.h"

void tl_maxpool2d_bw_apart_f16(const tl_pool2d *a)
{
    max_backward_apart(a);
}
