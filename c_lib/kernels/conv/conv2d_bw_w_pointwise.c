/* Weight gradient of a 1 x 1 kernel whose planes of x and dL/dy lie alike, of whole tiles. */
#include "tl_conv_bw_w_rows.h"

void tl_conv2d_bw_w_pointwise_f32(const tl_conv2d *a)
{
#ifdef TL_XPULP_TILES
    tl_bw_w_rows(a);
#else
    tl_conv_bw_w(a, 1);
#endif
}
