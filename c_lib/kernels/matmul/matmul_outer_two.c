/* Products of two terms whose rows are contiguous in c, b and init. */
#include "tl_outer.h"
#include "tl_promise.h"

#define TL_SUM(i) __builtin_fmaf(w1, y[i], __builtin_fmaf(w0, x[i], 0.0f))

static void outer_row(const tl_matmul *p, int b, int m, int n, int count)
{
    const float *left = p->a + b * p->a_b + m * p->a_m;
    const float w0 = left[0], w1 = left[p->a_k];
    const float *x = p->b + b * p->b_b + n, *y = x + p->b_k, *base = NULL;
    float *c = p->c + b * p->c_b + m * p->c_m + n;
    if (p->accumulate)
        base = c;
    else if (p->init)
        base = p->init + b * p->i_b + m * p->i_m + n;
    for (; count >= 4; count -= 4, c += 4, x += 4, y += 4) {
        const float s0 = TL_SUM(0), s1 = TL_SUM(1), s2 = TL_SUM(2), s3 = TL_SUM(3);
        if (base) {
            c[0] = base[0] + s0, c[1] = base[1] + s1, c[2] = base[2] + s2, c[3] = base[3] + s3;
            base += 4;
        } else {
            c[0] = 0.0f + s0, c[1] = 0.0f + s1, c[2] = 0.0f + s2, c[3] = 0.0f + s3;
        }
    }
    for (; count > 0; --count, ++x, ++y)
        *c++ = (base ? *base++ : 0.0f) + TL_SUM(0);
}

void tl_matmul_outer_two_f32(const tl_matmul *p)
{
    TL_PROMISE(p->k == 2 && p->c_n == 1 && p->b_n == 1 && (p->accumulate || !p->init || p->i_n == 1));
    tl_outer(p, outer_row);
}
