/* Products of one term: each core takes a contiguous range of elements, row by row. */
#ifndef TL_OUTER_H
#define TL_OUTER_H
#include "tl_dot.h"

/* Columns n .. n + count - 1 of one row. */
typedef void tl_outer_row(const tl_matmul *p, int b, int m, int n, int count);

static inline __attribute__((always_inline)) void tl_outer(const tl_matmul *p, tl_outer_row *outer_row)
{
    int lo, hi;
    tl_split(p->batch * p->m * p->n, 4, &lo, &hi);
    if (lo == hi)
        return;
    int row = lo / p->n, n = lo - row * p->n, b = row / p->m, m = row - b * p->m;
    for (int count; lo < hi; lo += count, n = 0) {
        count = tl_min(p->n - n, hi - lo);
        outer_row(p, b, m, n, count);
        if (++m == p->m)
            m = 0, ++b;
    }
}
#endif
