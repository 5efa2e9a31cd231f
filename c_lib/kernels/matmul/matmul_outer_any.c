/* Products of one term, however their operands lie: each core takes a contiguous range of elements. */
#include "tl_dot.h"

/* Columns n .. n + count - 1 of one row. */
static void outer_row(const tl_matmul *p, int b, int m, int n, int count)
{
    const float left = p->a[b * p->a_b + m * p->a_m], *right = p->b + b * p->b_b + n * p->b_n;
    float *c = p->c + b * p->c_b + m * p->c_m + n * p->c_n;
    for (int i = 0; i < count; ++i)
        c[i * p->c_n] = tl_start_of(p, b, m, n + i) + left * right[i * p->b_n];
}

void tl_matmul_outer_any_f32(const tl_matmul *p)
{
    int lo, hi;
    TL_PROMISE(p->k == 1);
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
