/* Matrices of halves times a vector each, however they lie: every core takes a range of rows, four at a time. */
#include "tl_dot.h"
#include "tl_pair.h"

/* Two terms; the second of the last ones may be missing. */
static tl_pair pair_at(const tl_half *at, int step, int more)
{
    return tl_pair_of(at[0], more ? at[step] : 0);
}

/* Goes on with sum[i] by a[i][k] x[k] over kc terms for four rows; missing rows repeat the last one. */
static void dot(float *sum, const tl_half *a, int a_m, int a_k, int rows, const tl_half *x, int x_k, int kc)
{
    const tl_half *a1 = rows > 1 ? a + a_m : a, *a2 = rows > 2 ? a1 + a_m : a1, *a3 = rows > 3 ? a2 + a_m : a2;
    float s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
    for (; kc > 0; kc -= 2) {
        const tl_pair v = pair_at(x, x_k, kc > 1);
        s0 = tl_pair_add(s0, pair_at(a, a_k, kc > 1), v), s1 = tl_pair_add(s1, pair_at(a1, a_k, kc > 1), v);
        s2 = tl_pair_add(s2, pair_at(a2, a_k, kc > 1), v), s3 = tl_pair_add(s3, pair_at(a3, a_k, kc > 1), v);
        x += 2 * x_k, a += 2 * a_k, a1 += 2 * a_k, a2 += 2 * a_k, a3 += 2 * a_k;
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
}

void tl_matmul_vectors_f16(const tl_matmul *p)
{
    TL_PROMISE(p->n == 1);
    for (tl_rows r = tl_first_rows(p); r.left > 0; tl_next_rows(p, &r)) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        const tl_half *a = p->a_f16 + r.b * p->a_b + r.m * p->a_m, *x = p->b_f16 + r.b * p->b_b;
        r.rows = tl_min(4, tl_min(r.left, p->m - r.m));
        tl_begin_rows(p, r.b, r.m, r.rows, sum);
        dot(sum, a, p->a_m, p->a_k, r.rows, x, p->b_k, p->k);
        tl_put_rows(p, &r, sum);
    }
}
