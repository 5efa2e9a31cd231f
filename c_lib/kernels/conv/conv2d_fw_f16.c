/* Forward convolution of halves. */
#define TL_HALVES
#include "tl_conv_pairs.h"

void tl_conv2d_fw_f16(const tl_conv2d *a)
{
    tl_gather g = tl_gather_fw(a);
    g.by_taps = a->ci == 1 && a->kw != 3; /* these are seldom here, but done by planes */
    tl_conv_pairs(&g, a->kh * a->kw, a->packed_rows, a->tiles);
}
