/* Input gradient of a depthwise convolution of halves with any kernel, stride and dilation, class by class. */
#define TL_HALVES
#include "tl_line.h"

void tl_conv2d_bw_x_depthwise_f16(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    tl_line_widen(a, &g, 1, a->ci);
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = tl_axis_bw(ry, a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = tl_axis_bw(rx, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w);
            tl_lines_any(&g);
        }
    }
}
