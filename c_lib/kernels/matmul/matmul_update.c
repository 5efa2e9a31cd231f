/* Weight gradients that are used up at once, of operands that lie anyhow. */
#include "tl_update_floats.h"

typedef float word;
#define TL_SUMS tl_update_sums

static void pack(const tl_matmul *p, int right, int at, word *dst)
{
    const int step = right ? p->b_n : p->a_m, term = right ? p->b_k : p->a_k;
    tl_tile_pack(dst, (right ? p->b : p->a) + at * step, step, term, tl_min(4, (right ? p->n : p->m) - at), p->k);
}

#include "tl_update_packed.inc"

void tl_matmul_update_f32(const tl_matmul_update *u)
{
    update(u, u->product.k);
}
