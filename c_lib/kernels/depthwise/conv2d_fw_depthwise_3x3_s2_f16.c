/* Depthwise 3 x 3 convolution of halves, of stride 2. */
#include "tl_depthwise_outputs.h"

void tl_conv2d_fw_depthwise_3x3_s2_f16(const tl_conv2d *a)
{
    const tl_halves_planes p = tl_forward_planes(a);
    TL_PROMISE(a->stride_h == 2 && a->stride_w == 2);
    tl_halves_outputs_by(a, &p, 2);
}
