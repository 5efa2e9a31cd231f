/* 3 x 3 taps of four pixels of a row, `by` columns apart: 3 * by + 3 neighbours of a row serve three taps; internal to
 * c_lib/kernels. */
#ifndef TL_NEAR_H
#define TL_NEAR_H
#include "tl_pixels.h"
#include "tl_terms.h"

#define TL_NEIGHBOURS(by) (3 * (by) + 3)

/* The first column that a patch reads. */
static inline int tl_patch_column(const tl_gather *g, const tl_pixels *px)
{
    return px->col[0] + tl_min(0, 2 * g->x.tap_in);
}

/* Whether the pixels' taps reach out of the image by at most one column. */
static inline int tl_pixels_near(const tl_gather *g, const tl_pixels *px, int by)
{
    const int column = tl_patch_column(g, px), dx = g->x.tap_in;
    return g->y.taps == 3 && g->x.taps == 3 && (dx == 1 || (by == 1 && dx == -1)) && px->out.cols == 4 &&
           px->at[3] == px->at[0] + 3 * by && px->row[3] == px->row[0] && column >= -1 &&
           column + TL_NEIGHBOURS(by) <= g->x.extent + 1;
}

#define TL_NEAR_TAP(d, x, first)                                                                                       \
    d[0] = x[first], d[1] = x[first + by], d[2] = x[first + 2 * by], d[3] = x[first + 3 * by];

/* Whole channels of a 3 x 3 patch; those that the block cuts spill over into the slack. Kernel row by kernel row
 * through all channels. What is outside is zeros, and stays where it is. by, a literal: 1 or 2. */
static inline __attribute__((always_inline)) void tl_gather_near(const tl_gather *g, const tl_pixels *px,
                                                                 const float *in, int k, int kc, int by)
{
    float zero = 0.0f, zeros[TL_NEIGHBOURS(2)]; /* on the stack: constants lie in L2 */
    const int last = TL_NEIGHBOURS(by) - 1;
    const int c = k / 9, channels = (k + kc + 8) / 9 - c, column = tl_patch_column(g, px), step = g->in_p.c;
    const int first = g->x.tap_in < 0 ? 8 : 0;
    TL_HERE(zero) /* not a memset: the SDK's goes byte by byte */
    for (int i = 0; i <= last; ++i)
        zeros[i] = zero;
    in += c * step + px->at[0] - px->col[0] + column;
    for (int ty = 0, row = px->row[0]; ty < 3; ++ty, row += g->y.tap_in) {
        const int inside = (unsigned)row < (unsigned)g->y.extent;
        const int left = inside && column >= 0, right = inside && column + last < g->x.extent;
        const float *p = inside ? in + ty * g->y.tap_in * g->in_p.h : zeros;
        const float *before = left ? p : zeros, *behind = right ? p + last : zeros;
        const int m = inside ? step : 0, m_before = left ? step : 0, m_behind = right ? step : 0;
        TL_ONE_POINTER(ty) /* not three copies of this loop: cores wait for each other's code */
        float *d1 = px->pack - 4 * (k - 9 * c) + 12 * ty, *d0 = d1 + first, *d2 = d1 + 8 - first;
        d1 += 4;
        for (int more = channels; more > 0; --more) {
            float x[TL_NEIGHBOURS(2)] = {*before, p[1], p[2], p[3], p[4]};
            for (int i = 5; i < last; ++i)
                x[i] = p[i];
            x[last] = *behind;
            TL_NEAR_TAP(d0, x, 0)
            TL_NEAR_TAP(d1, x, 1)
            TL_NEAR_TAP(d2, x, 2)
            p += m, before += m_before, behind += m_behind;
            d0 += 36, d1 += 36, d2 += 36;
        }
    }
}

/* The inputs of neighbours, and of every other column. */
void tl_pixels_gather_near(const tl_gather *g, const tl_pixels *px, const float *in, int k, int kc);
void tl_pixels_gather_near_s2(const tl_gather *g, const tl_pixels *px, const float *in, int k, int kc);
#endif
