/* Gradient of averages over any regular windows. */
#include "tl_pool_average_bw.h"

void tl_avgpool2d_bw_f32(const tl_pool2d *a)
{
    average_backward(a, 0, 0);
}
