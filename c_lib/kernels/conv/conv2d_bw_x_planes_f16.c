/* Input gradient of halves by few taps, over planes: class by class of the output positions modulo the stride, a
 * convolution with the kernel turned. */
#define TL_HALVES
#include "tl_planes.h"

void tl_conv2d_bw_x_planes_f16(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = tl_axis_turned(tl_axis_bw(ry, a->h, a->ho, a->kh, a->stride_h, a->pad_h, 1));
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = tl_axis_turned(tl_axis_bw(rx, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, 1));
            tl_conv_planes(&g, a->packed_rows);
        }
    }
}
