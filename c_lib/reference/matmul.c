/* The matrix product, one element at a time, on one core: what every kernel of it gives, bit by bit. */
#include "tl_matmul.h"
#include "sum.h"

void REFERENCE(matmul)(const tl_matmul *a)
{
    for (int b = 0; b < a->batch; b++) {
        for (int m = 0; m < a->m; m++) {
            for (int n = 0; n < a->n; n++) {
                float *c = a->c + b * a->c_b + m * a->c_m + n * a->c_n;
                const float *init = a->init ? a->init + b * a->i_b + m * a->i_m + n * a->i_n : 0;
                sum s = {.total = a->accumulate ? *c : init ? *init : 0};
                for (int k = 0; k < a->k; k++)
                    add(&s, a->READ(a)[b * a->a_b + m * a->a_m + k * a->a_k],
                        a->READ(b)[b * a->b_b + k * a->b_k + n * a->b_n]);
                *c = end(&s);
            }
        }
    }
}
