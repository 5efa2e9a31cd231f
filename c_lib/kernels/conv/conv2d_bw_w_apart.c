/* Weight gradient with dL/dy contiguous along rows, or over the planes of one image. */
#include "tl_conv_bw_w.h"

void tl_conv2d_bw_w_apart_f32(const tl_conv2d *a)
{
    tl_conv_bw_w(a, 0);
}
