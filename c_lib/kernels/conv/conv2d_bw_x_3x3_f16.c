/* Input gradient of halves by 3 x 3 kernels of stride 1: a convolution with the kernel turned. */
#define TL_HALVES
#include "tl_planes.h"

void tl_conv2d_bw_x_3x3_f16(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    g.y = tl_axis_turned(tl_axis_bw(0, a->h, a->ho, 3, 1, a->pad_h, 1));
    g.x = tl_axis_turned(tl_axis_bw(0, a->wd, a->wo, 3, 1, a->pad_w, 1));
    tl_conv_planes(&g, a->packed_rows);
}
