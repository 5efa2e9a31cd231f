/* Forward convolution of halves by few taps, over planes. */
#define TL_HALVES
#include "tl_planes.h"

/* Apart, so that what it loads is off the stack before the deepest calls begin. */
static __attribute__((noinline)) tl_gather made(const tl_conv2d *a)
{
    return tl_gather_fw(a);
}

void tl_conv2d_fw_planes_f16(const tl_conv2d *a)
{
    const tl_gather g = made(a);
    tl_conv_planes(&g, a->packed_rows);
}
