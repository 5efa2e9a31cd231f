/* 3 x 3 taps of four neighbouring pixels. */
#include "tl_near.h"

void tl_pixels_gather_near(const tl_gather *g, const tl_pixels *px, const float *in, int k, int kc)
{
    tl_gather_near(g, px, in, k, kc, 1);
}
