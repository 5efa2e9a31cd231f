/* Averages over regular windows. */
#include "tl_pool_average.h"

void tl_avgpool2d_fw_f32(const tl_pool2d *a)
{
    average_forward(a, 0);
}
