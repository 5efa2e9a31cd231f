/* Rows of a matrix times a vector, four or eight sums at a time; internal to c_lib/kernels. */
#ifndef TL_DOT_H
#define TL_DOT_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_dots_xpulp.h"
#include "tl_matmul.h"
#include "tl_promise.h"

/* What one element of a product begins with. */
static inline float tl_start_of(const tl_matmul *p, int b, int m, int n)
{
    if (p->accumulate)
        return p->c[b * p->c_b + m * p->c_m + n * p->c_n];
    return p->init ? p->init[b * p->i_b + m * p->i_m + n * p->i_n] : 0.0f;
}

#define TL_DOT_STEP(i)                                                                                                 \
    {                                                                                                                  \
        const float v = TL_WIDE(x[i]);                                                                                 \
        s0 = __builtin_fmaf(a[i], v, s0), s1 = __builtin_fmaf(a1[i], v, s1);                                           \
        s2 = __builtin_fmaf(a2[i], v, s2), s3 = __builtin_fmaf(a3[i], v, s3);                                          \
    }

/* sum[i] += sum_k a[i][k] x[k] for four rows whose terms are contiguous, block by block of the sum; missing rows repeat
 * the last one. */
static inline void tl_dot_dense(float *sum, const float *a, int a_m, int rows, const tl_met *x, int k)
{
    const float *a1 = rows > 1 ? a + a_m : a, *a2 = rows > 2 ? a1 + a_m : a1, *a3 = rows > 3 ? a2 + a_m : a2;
    float t0 = sum[0], t1 = sum[1], t2 = sum[2], t3 = sum[3];
#ifdef TL_XPULP_DOTS
    const float *line[4] = {a, a1, a2, a3};
    for (; k > 0; k -= TL_KC, x += TL_KC) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        tl_xpulp_dots(s, line, x, tl_min(TL_KC, k));
        t0 += s[0], t1 += s[1], t2 += s[2], t3 += s[3];
    }
#else
    while (k > 0) {
        const int kc = tl_min(TL_KC, k);
        const tl_met *end = x + kc, *whole = x + (kc & ~7);
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (; x < whole; x += 8, a += 8, a1 += 8, a2 += 8, a3 += 8) {
            TL_DOT_STEP(0)
            TL_DOT_STEP(1)
            TL_DOT_STEP(2)
            TL_DOT_STEP(3)
            TL_DOT_STEP(4)
            TL_DOT_STEP(5)
            TL_DOT_STEP(6)
            TL_DOT_STEP(7)
        }
        for (; x < end; x++, a++, a1++, a2++, a3++)
            TL_DOT_STEP(0)
        t0 += s0, t1 += s1, t2 += s2, t3 += s3;
        k -= kc;
    }
#endif
    sum[0] = t0, sum[1] = t1, sum[2] = t2, sum[3] = t3;
}

/* sum[i] += sum_k a[i][k] x[k] over kc <= TL_KC terms for four rows; missing rows repeat the last one. */
static inline void tl_dot_any(float *sum, const float *a, int a_m, int a_k, int rows, const tl_met *x, int x_k, int kc)
{
    const float *a1 = rows > 1 ? a + a_m : a, *a2 = rows > 2 ? a1 + a_m : a1, *a3 = rows > 3 ? a2 + a_m : a2;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (; kc > 0; --kc, x += x_k) {
        TL_DOT_STEP(0)
        a += a_k, a1 += a_k, a2 += a_k, a3 += a_k;
    }
    sum[0] += s0, sum[1] += s1, sum[2] += s2, sum[3] += s3;
}

/* The same for eight rows, or up to four, and a dense x. */
static inline __attribute__((always_inline)) void tl_dot_lines(float *sum, const float *a, int a_m, int a_k, int rows,
                                                               const tl_met *x, int kc)
{
#ifdef TL_XPULP_DOTS
    if (rows == 8) {
        tl_xpulp_eight_lines(sum, 1, sum, 1, a, a_m, a_k, x, kc);
        return;
    }
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (rows == 4)
        tl_xpulp_four_lines(s, a, a_m, a_k, x, kc);
    else
        tl_xpulp_few_lines(s, a, rows, a_m, a_k, x, kc);
    sum[0] += s[0], sum[1] += s[1], sum[2] += s[2], sum[3] += s[3];
#else
    if (rows < 8) {
        tl_dot_any(sum, a, a_m, a_k, rows, x, 1, kc);
        return;
    }
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f, s5 = 0.0f, s6 = 0.0f, s7 = 0.0f;
    for (; kc > 0; --kc, ++x, a += a_k) {
        const float v = TL_WIDE(*x);
        s0 = __builtin_fmaf(a[0], v, s0), s1 = __builtin_fmaf(a[a_m], v, s1);
        s2 = __builtin_fmaf(a[2 * a_m], v, s2), s3 = __builtin_fmaf(a[3 * a_m], v, s3);
        s4 = __builtin_fmaf(a[4 * a_m], v, s4), s5 = __builtin_fmaf(a[5 * a_m], v, s5);
        s6 = __builtin_fmaf(a[6 * a_m], v, s6), s7 = __builtin_fmaf(a[7 * a_m], v, s7);
    }
    sum[0] += s0, sum[1] += s1, sum[2] += s2, sum[3] += s3;
    sum[4] += s4, sum[5] += s5, sum[6] += s6, sum[7] += s7;
#endif
}

/* sum[0 .. rows) = what rows m .. m + rows - 1 of a product with a vector begin with; rows is at most 8. */
static inline void tl_begin_rows(const tl_matmul *p, int b, int m, int rows, float *sum)
{
    const float *base = p->accumulate ? p->c + b * p->c_b + m * p->c_m : NULL;
    const int step = p->accumulate ? p->c_m : p->i_m;
    if (!p->accumulate && p->init)
        base = p->init + b * p->i_b + m * p->i_m;
    for (int i = 0; base && i < rows; ++i, base += step)
        sum[i] = *base;
}

/* One core's next rows, of one batch item. */
typedef struct {
    int b, m, rows, left;
} tl_rows;

static inline tl_rows tl_first_rows(const tl_matmul *p)
{
    int lo, hi;
    tl_split(p->batch * p->m, 1, &lo, &hi);
    return (tl_rows){lo / p->m, lo % p->m, 0, hi - lo};
}

/* Their sums, of a kernel that may round them. */
static inline void tl_put_rows(const tl_matmul *p, const tl_rows *r, const float *sum)
{
    const int at = r->b * p->c_b + r->m * p->c_m;
    for (int i = 0; i < r->rows; ++i)
        if (p->halves)
            p->c_f16[at + i * p->c_m] = tl_to_half(sum[i]);
        else
            p->c[at + i * p->c_m] = sum[i];
}

/* Steps behind `rows` rows. */
static inline void tl_next_rows(const tl_matmul *p, tl_rows *r)
{
    r->left -= r->rows, r->m += r->rows;
    if (r->m == p->m)
        r->m = 0, ++r->b;
}
#endif
