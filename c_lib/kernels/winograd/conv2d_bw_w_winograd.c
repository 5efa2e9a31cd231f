/* Weight gradient of a 3 x 3 convolution of stride 1 by Winograd's algorithm. */
#include "tl_winograd_bw_w.h" /* first: it sets how the whole file is compiled */

void tl_conv2d_bw_w_winograd_f32(const tl_conv2d *a)
{
    tl_winograd_bw_w_run(a);
}
