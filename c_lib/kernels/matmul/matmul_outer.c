/* Products of one term whose rows are contiguous in c, b and init. */
#include "tl_outer.h"
#include "tl_promise.h"

/* c[i] = base[i] + left * right[i] */
static void scale_row(float *c, const float *base, const float *right, float left, int count)
{
    for (; count >= 4; count -= 4, c += 4, base += 4, right += 4) {
        const float x0 = left * right[0], x1 = left * right[1], x2 = left * right[2], x3 = left * right[3];
        const float b0 = base[0], b1 = base[1], b2 = base[2], b3 = base[3];
        c[0] = b0 + x0, c[1] = b1 + x1, c[2] = b2 + x2, c[3] = b3 + x3;
    }
    for (; count > 0; --count)
        *c++ = *base++ + left * *right++;
}

/* c[i] = left * right[i]; the sum with zero drops the sign of a zero, as in the kernels that add up. */
static void set_row(float *c, const float *right, float left, int count)
{
    for (; count >= 4; count -= 4, c += 4, right += 4) {
        const float x0 = __builtin_fmaf(left, right[0], 0.0f), x1 = __builtin_fmaf(left, right[1], 0.0f);
        const float x2 = __builtin_fmaf(left, right[2], 0.0f), x3 = __builtin_fmaf(left, right[3], 0.0f);
        c[0] = x0, c[1] = x1, c[2] = x2, c[3] = x3;
    }
    for (; count > 0; --count)
        *c++ = __builtin_fmaf(left, *right++, 0.0f);
}

static void outer_row(const tl_matmul *p, int b, int m, int n, int count)
{
    const float left = p->a[b * p->a_b + m * p->a_m], *right = p->b + b * p->b_b + n;
    float *c = p->c + b * p->c_b + m * p->c_m + n;
    if (p->accumulate)
        scale_row(c, c, right, left, count);
    else if (p->init)
        scale_row(c, p->init + b * p->i_b + m * p->i_m + n, right, left, count);
    else
        set_row(c, right, left, count);
}

void tl_matmul_outer_f32(const tl_matmul *p)
{
    TL_PROMISE(p->k == 1 && p->c_n == 1 && p->b_n == 1 && (p->accumulate || !p->init || p->i_n == 1));
    tl_outer(p, outer_row);
}
