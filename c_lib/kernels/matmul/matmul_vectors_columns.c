/* Matrices whose rows lie side by side, each times a vector: every core takes a range of rows, eight at a time. */
#include "tl_dot.h"

void tl_matmul_vectors_columns_f32(const tl_matmul *p)
{
    TL_PROMISE(p->n == 1 && p->a_m == 1 && p->b_k == 1);
    for (tl_rows r = tl_first_rows(p); r.left > 0; tl_next_rows(p, &r)) {
        float sum[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, *c = p->c + r.b * p->c_b + r.m * p->c_m;
        const float *a = p->a + r.b * p->a_b + r.m, *x = p->b + r.b * p->b_b;
        const int rest = tl_min(r.left, p->m - r.m);
        r.rows = rest >= 8 ? 8 : tl_min(4, rest);
        tl_begin_rows(p, r.b, r.m, r.rows, sum);
        for (int k = 0; k < p->k; k += TL_KC, a += TL_KC * p->a_k, x += TL_KC)
            tl_dot_lines(sum, a, 1, p->a_k, r.rows, x, tl_min(TL_KC, p->k - k));
        for (int i = 0; i < r.rows; ++i, c += p->c_m)
            *c = sum[i];
    }
}
