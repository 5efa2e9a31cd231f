/* Matrices times a vector each, however they lie: every core takes a range of rows. */
#include "tl_dot.h"

void tl_matmul_vectors_any_f32(const tl_matmul *p)
{
    TL_PROMISE(p->n == 1);
    for (tl_rows r = tl_first_rows(p); r.left > 0; tl_next_rows(p, &r)) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, *c = p->c + r.b * p->c_b + r.m * p->c_m;
        const float *a = p->a + r.b * p->a_b + r.m * p->a_m, *x = p->b + r.b * p->b_b;
        r.rows = tl_min(4, tl_min(r.left, p->m - r.m));
        tl_begin_rows(p, r.b, r.m, r.rows, sum);
        for (int k = 0; k < p->k; k += TL_KC)
            tl_dot_any(sum, a + k * p->a_k, p->a_m, p->a_k, r.rows, x + k * p->b_k, p->b_k, tl_min(TL_KC, p->k - k));
        for (int i = 0; i < r.rows; ++i, c += p->c_m)
            *c = sum[i];
    }
}
