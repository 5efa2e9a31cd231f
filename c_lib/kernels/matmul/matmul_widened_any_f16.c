/* Matrices of floats times a vector of halves each, however they lie: every core takes a range of rows. */
#define TL_HALF_VECTOR
#include "tl_dot.h"

void tl_matmul_widened_any_f16(const tl_matmul *p)
{
    TL_PROMISE(p->n == 1);
    for (tl_rows r = tl_first_rows(p); r.left > 0; tl_next_rows(p, &r)) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        const float *a = p->a + r.b * p->a_b + r.m * p->a_m;
        const tl_half *x = p->b_f16 + r.b * p->b_b;
        r.rows = tl_min(4, tl_min(r.left, p->m - r.m));
        tl_begin_rows(p, r.b, r.m, r.rows, sum);
        for (int k = 0; k < p->k; k += TL_KC, a += TL_KC * p->a_k, x += TL_KC * p->b_k)
            tl_dot_any(sum, a, p->a_m, p->a_k, r.rows, x, p->b_k, tl_min(TL_KC, p->k - k));
        tl_put_rows(p, &r, sum);
    }
}
