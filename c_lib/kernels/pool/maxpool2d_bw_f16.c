/* Gradient of maxima over any regular windows of halves. */
#define TL_HALVES
#include "tl_pool_max_bw.h"

void tl_maxpool2d_bw_f16(const tl_pool2d *a)
{
    max_backward_each(a, 0);
}
