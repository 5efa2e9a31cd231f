/* Gradient of averages over windows that count as many columns each. */
#include "tl_pool_average_bw.h"

void tl_avgpool2d_bw_even_f32(const tl_pool2d *a)
{
    average_backward(a, 0, 1);
}
