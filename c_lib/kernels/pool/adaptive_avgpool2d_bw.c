/* Gradient of averages over windows that cut a plane into pieces. */
#include "tl_pool_average_bw.h"

void tl_adaptive_avgpool2d_bw_f32(const tl_pool2d *a)
{
    average_backward(a, 1, 0);
}
