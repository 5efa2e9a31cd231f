/* Depthwise convolution of halves with any kernel, stride and dilation. */
#define TL_HALVES
#include "tl_line.h"

void tl_conv2d_fw_depthwise_f16(const tl_conv2d *a)
{
    tl_gather g = tl_gather_fw(a);
    tl_line_widen(a, &g, a->ci, 1);
    tl_lines_any(&g);
}
