/* Depthwise weight gradient of halves, any kernel. */
#define TL_HALVES
#include "tl_strip.h"

void tl_conv2d_bw_w_depthwise_f16(const tl_conv2d *a)
{
    tl_strip_whole(a);
}
