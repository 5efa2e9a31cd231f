/* Weight gradient with contiguous planes of dL/dy. */
#include "tl_conv_bw_w.h"

void tl_conv2d_bw_w_f32(const tl_conv2d *a)
{
    tl_conv_bw_w(a, 1);
}
