/* Products of two terms whose rows are contiguous in c, b and init: four columns of b stay in registers, and each core
 * goes down a range of their rows. */
#include "tl_outer_xpulp.h"

#define TL_SUM(i) __builtin_fmaf(w1, y[i], __builtin_fmaf(w0, x[i], 0.0f))

/* Four columns; what is added to may be what is written. */
static void fours(const tl_matmul *p, const float *a, const float *x, const float *from, int from_m, float *to,
                  int rows)
{
#ifdef TL_XPULP_OUTER
    tl_xpulp_rows_of_two(a, p->a_m, p->a_k, x, x + p->b_k, from, from_m, to, p->c_m, rows);
#else
    const float *y = x + p->b_k;
    for (; rows > 0; --rows, a += p->a_m, from += from_m, to += p->c_m) {
        const float w0 = a[0], w1 = a[p->a_k];
        const float s0 = from[0] + TL_SUM(0), s1 = from[1] + TL_SUM(1);
        const float s2 = from[2] + TL_SUM(2), s3 = from[3] + TL_SUM(3);
        to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;
    }
#endif
}

/* Fewer columns, the last ones. */
static void rest(const tl_matmul *p, const float *a, const float *x, const float *from, int from_m, float *to, int cols,
                 int rows)
{
    const float *y = x + p->b_k;
    for (; rows > 0; --rows, a += p->a_m, from += from_m, to += p->c_m) {
        const float w0 = a[0], w1 = a[p->a_k];
        for (int j = 0; j < cols; ++j)
            to[j] = from[j] + TL_SUM(j);
    }
}

void tl_matmul_outer_two_f32(const tl_matmul *p)
{
    const float zeros[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const int panels = (p->n + 3) / 4;
    int lo, hi;
    TL_PROMISE(p->k == 2 && p->c_n == 1 && p->b_n == 1 && (p->accumulate || !p->init || p->i_n == 1));
    tl_split(p->batch * panels * p->m, 1, &lo, &hi);
    const int at = lo / p->m;
    int m = lo - at * p->m, b = at / panels, n = 4 * (at - b * panels);
    for (int rows; lo < hi; lo += rows, m = 0) {
        const float *a = p->a + b * p->a_b + m * p->a_m, *x = p->b + b * p->b_b + n, *from = zeros;
        float *to = p->c + b * p->c_b + m * p->c_m + n;
        int from_m = 0;
        if (p->accumulate)
            from = to, from_m = p->c_m;
        else if (p->init)
            from = p->init + b * p->i_b + m * p->i_m + n, from_m = p->i_m;
        rows = tl_min(p->m - m, hi - lo);
        if (p->n - n >= 4)
            fours(p, a, x, from, from_m, to, rows);
        else
            rest(p, a, x, from, from_m, to, p->n - n, rows);
        n += 4;
        if (n >= p->n)
            n = 0, ++b;
    }
}
