/* Depthwise convolution with any kernel, stride and dilation. */
#include "tl_line.h"

void tl_conv2d_fw_depthwise_f32(const tl_conv2d *a)
{
    const tl_gather g = tl_gather_fw(a);
    tl_lines_any(&g);
}
