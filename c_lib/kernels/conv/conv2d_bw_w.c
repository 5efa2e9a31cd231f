/* Weight gradient with contiguous planes of dL/dy. */
#include "tl_conv_bw_w_rows.h"

void tl_conv2d_bw_w_f32(const tl_conv2d *a)
{
#ifdef TL_XPULP_TILES
    if (tl_rows_alike(a)) {
        tl_bw_w_rows(a);
        return;
    }
#endif
    tl_conv_bw_w(a, 1);
}
