/* Weight gradient with three neighbouring taps a kernel row, of stride 2 along a row, four outputs at a time. */
#include "tl_conv_bw_w_3.h"

static __attribute__((noinline)) void pack(const tl_conv2d *a, const float *x, int top, tl_output *at, int kc,
                                           float *dst)
{
    tl_block_pack(a, x, top, at, kc, dst, 4, 2);
}

static __attribute__((noinline)) void multiply(const tl_kernel_row *v, int row, int end)
{
    for (; row < end; row += 4)
        tl_three_tile(v, row, 4, 2);
}

void tl_conv2d_bw_w_3_s2_f32(const tl_conv2d *a)
{
    tl_conv_bw_w_3(a, 4, 2, pack, multiply);
}
