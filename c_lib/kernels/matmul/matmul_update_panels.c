/* Weight gradients that are used up at once, of rows and columns that lie side by side, in whole tiles. */
#include "tl_update_floats.h"

typedef float word;
#define TL_SUMS tl_update_sums

#include "tl_update.inc"

void tl_matmul_update_panels_f32(const tl_matmul_update *u)
{
    const tl_matmul *p = &u->product;
    const panels q = {.a = p->a, .b = p->b, .a_tile = 4, .b_tile = 4, .a_k = p->a_k, .b_k = p->b_k, .steps = p->k};
    TL_PROMISE(p->batch == 1 && p->init && !p->accumulate && p->k > 0 && p->k <= TL_KC);
    TL_PROMISE(p->a_m == 1 && p->b_n == 1 && p->m % 4 == 0 && p->n % 4 == 0);
    move_all(u, &q);
}
