/* Forward 3 x 3 convolution of stride 1 by Winograd's algorithm, two rows of the transformed 4 x 4 at a time. */
#include "tl_promise.h"
#include "tl_winograd_twos.h"

void tl_conv2d_fw_winograd_twos_f32(const tl_conv2d *a)
{
    const tl_gather g = tl_gather_fw(a);
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    tl_winograd_twos_run(&g, a, 0);
}
