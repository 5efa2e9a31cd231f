/* Depthwise weight gradient of halves with 7 taps a row and stride 2. */
#define TL_HALVES
#include "tl_plane_bw_w.h"

void tl_conv2d_bw_w_depthwise_7_s2_f16(const tl_conv2d *a)
{
    tl_plane_bw_w(a, 7, 2);
}
