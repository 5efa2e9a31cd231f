/* 3 x 3 taps of four neighbouring pixels: six neighbours of a row serve three taps. */
#include "tl_pixels.h"

/* Whole channels of a 3 x 3 patch; those that the block cuts spill over into the slack. Kernel row by kernel row through
 * all channels: six neighbours serve three taps. What is outside is zeros, and stays where it is. */
void tl_pixels_gather_near(const tl_gather *g, const tl_pixels *px, const float *in, int k, int kc)
{
    const float zeros[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}; /* on the stack: constants lie in L2 */
    const int c = k / 9, channels = (k + kc + 8) / 9 - c, column = tl_patch_column(g, px), step = g->in_p.c;
    const int first = g->x.tap_in < 0 ? 8 : 0;
    in += c * step + px->at[0] - px->col[0] + column;
    for (int ty = 0, row = px->row[0]; ty < 3; ++ty, row += g->y.tap_in) {
        const int inside = (unsigned)row < (unsigned)g->y.extent;
        const int left = inside && column >= 0, right = inside && column + 6 <= g->x.extent;
        const float *p = inside ? in + ty * g->y.tap_in * g->in_p.h : zeros;
        const float *before = left ? p : zeros, *behind = right ? p + 5 : zeros;
        const int m = inside ? step : 0, m_before = left ? step : 0, m_behind = right ? step : 0;
        TL_ONE_POINTER(ty) /* not three copies of this loop: cores wait for each other's code */
        float *d1 = px->pack - 4 * (k - 9 * c) + 12 * ty, *d0 = d1 + first, *d2 = d1 + 8 - first;
        d1 += 4;
        for (int more = channels; more > 0; --more) {
            const float x0 = *before, x1 = p[1], x2 = p[2], x3 = p[3], x4 = p[4], x5 = *behind;
            d0[0] = x0, d0[1] = x1, d0[2] = x2, d0[3] = x3;
            d1[0] = x1, d1[1] = x2, d1[2] = x3, d1[3] = x4;
            d2[0] = x2, d2[1] = x3, d2[2] = x4, d2[3] = x5;
            p += m, before += m_before, behind += m_behind;
            d0 += 36, d1 += 36, d2 += 36;
        }
    }
}
