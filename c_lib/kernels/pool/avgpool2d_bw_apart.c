/* Gradient of averages over windows that do not overlap. */
#include "tl_pool_average_bw.h"

void tl_avgpool2d_bw_apart_f32(const tl_pool2d *a)
{
    average_backward_apart(a);
}
