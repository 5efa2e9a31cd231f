/* What windows without holes between taps give to their winners, numbered in a byte; internal to c_lib/kernels. */
#ifndef TL_POOL_SCATTER_H
#define TL_POOL_SCATTER_H
#include "tl_pool_rows.h"

/* Where taps lie: number t in row t * inverse >> 16 of its window, and the last tap of a row `gap` before the next. */
typedef struct {
    int kw, inverse, gap;
} taps;

INLINE int offset(const taps *w, int tap)
{
    return tap + (tap * w->inverse >> 16) * w->gap;
}

/* `n` windows whose winners are all there, the first tap of the first one at x. */
APART void scatter(float *x, int stride, const element *g, const uint8_t *tap, int n, const taps *w)
{
    for (; n > 1; n -= 2, g += 2, tap += 2) {
        const int first = offset(w, tap[0]), second = stride + offset(w, tap[1]);
        const float a = WIDENED(g[0]), b = WIDENED(g[1]);
        x[first] += a;
        x[second] += b;
        x += 2 * stride;
    }
    if (n > 0)
        x[offset(w, tap[0])] += WIDENED(g[0]);
}
#endif
