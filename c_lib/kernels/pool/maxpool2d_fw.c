/* Maxima over regular windows. */
#include "tl_pool_max.h"

void tl_maxpool2d_fw_f32(const tl_pool2d *a)
{
    max_forward(a, 0);
}
