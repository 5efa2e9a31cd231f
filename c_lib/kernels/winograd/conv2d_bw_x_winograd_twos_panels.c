/* Input gradient of a 3 x 3 convolution of stride 1 by Winograd's algorithm, two rows of the transformed 4 x 4 at a
 * time, panels for each core: a convolution with kernels turned round. */
#include "tl_promise.h"
#include "tl_winograd_twos.h"

void tl_conv2d_bw_x_winograd_twos_panels_f32(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    g.y = tl_axis_bw(0, a->h, a->ho, 3, 1, a->pad_h, 1);
    g.x = tl_axis_bw(0, a->wd, a->wo, 3, 1, a->pad_w, 1);
    tl_winograd_twos_panels(&g, a, 1);
}
