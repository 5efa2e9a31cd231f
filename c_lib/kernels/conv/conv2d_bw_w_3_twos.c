/* Weight gradient with three neighbouring taps a kernel row, two outputs at a time. */
#include "tl_conv_bw_w_3.h"

static __attribute__((noinline)) void multiply(const tl_met *v, int first, int end)
{
    tl_three_multiply(v, first, end, 2, 1);
}

void tl_conv2d_bw_w_3_twos_f32(const tl_conv2d *a)
{
    tl_conv_bw_w_3(a, 2, 1, multiply);
}
