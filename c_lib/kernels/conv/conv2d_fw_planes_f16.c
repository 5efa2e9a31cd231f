/* Forward convolution of halves by few taps, over planes. */
#define TL_HALVES
#include "tl_planes.h"

void tl_conv2d_fw_planes_f16(const tl_conv2d *a)
{
    const tl_gather g = tl_gather_fw(a);
    tl_conv_planes(&g, a->packed_rows);
}
