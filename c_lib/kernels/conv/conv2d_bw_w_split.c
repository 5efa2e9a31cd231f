/* Weight gradient of few tiles, which the cores take block by block. */
#include "tl_conv_bw_w.h"

void tl_conv2d_bw_w_split_f32(const tl_conv2d *a)
{
    tl_conv_bw_w_split(a);
}
