/* Matrices of rows with contiguous terms, each times a vector: every core takes a range of rows. */
#include "tl_dot.h"

void tl_matmul_vectors_f32(const tl_matmul *p)
{
    TL_PROMISE(p->n == 1 && p->a_k == 1 && p->b_k == 1);
    for (tl_rows r = tl_first_rows(p); r.left > 0; tl_next_rows(p, &r)) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, *c = p->c + r.b * p->c_b + r.m * p->c_m;
        r.rows = tl_min(4, tl_min(r.left, p->m - r.m));
        tl_begin_rows(p, r.b, r.m, r.rows, sum);
        tl_dot_dense(sum, p->a + r.b * p->a_b + r.m * p->a_m, p->a_m, r.rows, p->b + r.b * p->b_b, p->k);
        for (int i = 0; i < r.rows; ++i, c += p->c_m)
            *c = sum[i];
    }
}
