/* Depthwise 3 x 3 convolution of halves. */
#include "tl_depthwise_pairs.h"

void tl_conv2d_fw_depthwise_3x3_f16(const tl_conv2d *a)
{
    const tl_halves_planes p = tl_forward_planes(a);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    tl_halves_outputs(a, &p);
}
