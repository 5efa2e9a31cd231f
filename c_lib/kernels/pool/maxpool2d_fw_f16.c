/* Maxima over regular windows of halves. */
#define TL_HALVES
#include "tl_pool_max.h"

void tl_maxpool2d_fw_f16(const tl_pool2d *a)
{
    max_forward(a, 0);
}
