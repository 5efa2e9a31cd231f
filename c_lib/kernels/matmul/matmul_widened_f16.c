/* A matrix of floats times a dense vector of halves, eight or four rows at a time. It has little code, as tiles come
 * back to it again and again. */
#define TL_HALF_VECTOR
#include "tl_dot.h"

void tl_matmul_widened_f16(const tl_matmul *p)
{
    tl_rows r = {0, 0, 0, 0};
    int hi;
    TL_PROMISE(p->batch == 1 && p->n == 1 && p->b_k == 1);
    for (tl_split(p->m, 1, &r.m, &hi); r.m < hi; r.m += r.rows) {
        float sum[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        const float *a = p->a + r.m * p->a_m;
        const tl_half *x = p->b_f16;
        r.rows = hi - r.m >= 8 ? 8 : tl_min(4, hi - r.m);
        tl_begin_rows(p, 0, r.m, r.rows, sum);
        for (int k = p->k; k > 0; k -= TL_KC, a += TL_KC * p->a_k, x += TL_KC)
            tl_dot_lines(sum, a, p->a_m, p->a_k, r.rows, x, tl_min(TL_KC, k));
        tl_put_rows(p, &r, sum);
    }
}
