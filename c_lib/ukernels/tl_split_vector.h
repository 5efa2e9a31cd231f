/* Few rows and many terms, times a vector: each core takes blocks of sums of four rows, which are then added in their
 * order. Internal to c_lib/kernels. */
#ifndef TL_SPLIT_VECTOR_H
#define TL_SPLIT_VECTOR_H
#include "tl_dot.h"

/* dense, a literal: the terms of rows and of the vector are contiguous. Scratch: four sums a block. */
static inline __attribute__((always_inline)) void tl_split_vector(const tl_matmul *p, int dense)
{
    const int blocks = (p->k + TL_KC - 1) / TL_KC, quads = (p->m + 3) / 4;
    float *part = p->scratch;
    int lo, hi;
    TL_PROMISE(p->n == 1 && (!dense || (p->a_k == 1 && p->b_k == 1)));
    tl_split(p->batch * quads * blocks, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int k = item % blocks * TL_KC, quad = item / blocks, m = quad % quads * 4, b = quad / quads;
        const int rows = tl_min(4, p->m - m), kc = tl_min(TL_KC, p->k - k);
        const float *a = p->a + b * p->a_b + m * p->a_m + k * p->a_k;
        const tl_met *x = TL_VECTOR(p) + b * p->b_b + k * p->b_k;
        float *sum = part + item * 4;
        sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
        if (dense)
            tl_dot_dense(sum, a, p->a_m, rows, x, kc);
        else
            tl_dot_any(sum, a, p->a_m, p->a_k, rows, x, p->b_k, kc);
    }
    tl_barrier();
    tl_split(p->batch * p->m, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int b = item / p->m, m = item % p->m;
        const float *from = part + (b * quads + m / 4) * blocks * 4 + m % 4;
        float total = tl_start_of(p, b, m, 0);
        for (int i = 0; i < blocks; ++i)
            total += from[4 * i];
        p->c[b * p->c_b + m * p->c_m] = total;
    }
}
#endif
