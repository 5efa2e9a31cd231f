/* Forward convolution of halves by 3 x 3 kernels. */
#define TL_HALVES
#include "tl_planes.h"

void tl_conv2d_fw_3x3_f16(const tl_conv2d *a)
{
    const tl_gather g = tl_gather_fw(a);
    tl_conv_planes(&g, a->packed_rows);
}
