/* The matrix product, one element at a time, on one core: what every kernel of it gives, bit by bit. */
#include "tl_matmul.h"
#include "sum.h"

#ifdef REFERENCE_F16
#define NOTHING 0.0f /* what a chain begins with */
#else
#define NOTHING (-0.0f) /* what a chain may be added to and stay as it is */
#endif

static float element_from(const tl_matmul *a, float start, int b, int m, int n)
{
    sum s = {.total = start};
    for (int k = 0; k < a->k; k++)
        add(&s, a->READ(a)[b * a->a_b + m * a->a_m + k * a->a_k], a->READ(b)[b * a->b_b + k * a->b_k + n * a->b_n]);
    return end(&s);
}

void REFERENCE(matmul)(const tl_matmul *a)
{
    for (int b = 0; b < a->batch; b++) {
        for (int m = 0; m < a->m; m++) {
            for (int n = 0; n < a->n; n++) {
                float *c = a->c + b * a->c_b + m * a->c_m + n * a->c_n;
                const float *init = a->init ? a->init + b * a->i_b + m * a->i_m + n * a->i_n : 0;
                *c = element_from(a, a->accumulate ? *c : init ? *init : 0, b, m, n);
            }
        }
    }
}

void REFERENCE(matmul_update)(const tl_matmul_update *u)
{
    const tl_matmul *a = &u->product;
    for (int m = 0; m < a->m; m++) {
        for (int n = 0; n < a->n; n++) {
            const float sum = element_from(a, NOTHING, 0, m, n), old = a->init[m * a->i_m + n * a->i_n];
            if (u->record)
                u->record[m * u->r_m + n * u->r_n] = sum;
            a->c[m * a->c_m + n * a->c_n] = __builtin_fmaf(-*u->rate, sum, old);
        }
    }
}
