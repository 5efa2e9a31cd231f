/* Weight gradients of operands in half precision that are used up at once, pair by pair of their terms. */
#include "tl_tile_pairs.h"
#include "tl_update.h"

#if defined(TL_XF16AUXVEC) && defined(__OPTIMIZE__) /* not where a register points at the frame */
#define TL_STEP TL_DOT
#endif
typedef tl_pair word;
#define TL_SUMS sums_of

static void pack(const tl_matmul *p, int right, int at, word *dst)
{
    const int step = right ? p->b_n : p->a_m, term = right ? p->b_k : p->a_k;
    const int cols = tl_min(4, (right ? p->n : p->m) - at);
    if (p->floats & (right ? 2 : 1))
        tl_pairs_round(dst, (right ? p->b : p->a) + at * step, step, term, cols, p->k);
    else
        tl_pairs_pack(dst, (right ? p->b_f16 : p->a_f16) + at * step, step, term, cols, p->k);
}

static void sums_of(float *sums, const word *a, int a_k, const word *b, int b_k, int pairs)
{
    (void)a_k, (void)b_k; /* packed */
    const tl_panel_out out = {.c = sums, .c_m = 4, .cols = 4, .dense = 1, .row_end = 4, .first = 1, .last = 1};
    tl_tile_pairs(&out, a, 4 * pairs, b, pairs);
}

#include "tl_update_packed.inc"

void tl_matmul_update_f16(const tl_matmul_update *u)
{
    update(u, (u->product.k + 1) / 2);
}
