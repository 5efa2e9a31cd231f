/* Products of one term, however their operands lie. */
#include "tl_outer.h"

static void outer_row(const tl_matmul *p, int b, int m, int n, int count)
{
    const float left = p->a[b * p->a_b + m * p->a_m], *right = p->b + b * p->b_b + n * p->b_n;
    float *c = p->c + b * p->c_b + m * p->c_m + n * p->c_n;
    for (int i = 0; i < count; ++i)
        c[i * p->c_n] = tl_start_of(p, b, m, n + i) + left * right[i * p->b_n];
}

void tl_matmul_outer_any_f32(const tl_matmul *p)
{
    TL_PROMISE(p->k == 1);
    tl_outer(p, outer_row);
}
