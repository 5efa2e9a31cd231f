/* Forward 3 x 3 convolution of halves, of stride 1, by Winograd's algorithm, the whole 4 x 4 at once. */
#define TL_HALVES
#include "tl_promise.h"
#include "tl_winograd_pairs.h"

void tl_conv2d_fw_winograd_whole_f16(const tl_conv2d *a)
{
    const tl_gather g = tl_gather_fw(a);
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    tl_winograd_whole_run(&g, a, 0);
}
