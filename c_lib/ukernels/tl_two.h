/* Matrices times two columns, four rows at a time: eight sums for six loads, wherever the operands lie; internal to
 * c_lib/kernels. */
#ifndef TL_TWO_H
#define TL_TWO_H
#include "tl_two_xpulp.h"

/* sum[2 i + j] = sum_k a[i][k] x[k][j] over 0 < kc <= TL_KC terms for rows i < 4. */
static inline __attribute__((always_inline)) void tl_two_sums(const tl_matmul *p, const float *a, const float *x,
                                                              int kc, float *sum)
{
#ifdef TL_XPULP_TWO
    tl_xpulp_two(a, p->a_m, p->a_k, x, p->b_k, p->b_n, kc, sum);
#else
    const int a_m = p->a_m, a_k = p->a_k, x_k = p->b_k, x_n = p->b_n;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f, s5 = 0.0f, s6 = 0.0f, s7 = 0.0f;
    for (; kc > 0; --kc, a += a_k, x += x_k) {
        const float x0 = x[0], x1 = x[x_n], *row = a + a_m, *below = row + a_m;
        s0 = __builtin_fmaf(a[0], x0, s0), s1 = __builtin_fmaf(a[0], x1, s1);
        s2 = __builtin_fmaf(row[0], x0, s2), s3 = __builtin_fmaf(row[0], x1, s3);
        s4 = __builtin_fmaf(below[0], x0, s4), s5 = __builtin_fmaf(below[0], x1, s5);
        s6 = __builtin_fmaf(below[a_m], x0, s6), s7 = __builtin_fmaf(below[a_m], x1, s7);
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3, sum[4] = s4, sum[5] = s5, sum[6] = s6, sum[7] = s7;
#endif
}

/* Rows m .. m + 3 of one batch item and terms k .. k + kc - 1; where fewer rows are left, those that end with the last
 * one. Says how many rows these begin above m. */
static inline __attribute__((always_inline)) int tl_two_block(const tl_matmul *p, int b, int m, int k, float *sum)
{
    const int above = tl_max(0, m + 4 - p->m);
    const float *a = p->a + b * p->a_b + (m - above) * p->a_m + k * p->a_k, *x = p->b + b * p->b_b + k * p->b_k;
    tl_two_sums(p, a, x, tl_min(TL_KC, p->k - k), sum);
    return above;
}
#endif
