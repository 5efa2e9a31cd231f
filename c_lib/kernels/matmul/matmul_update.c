/* Weight gradients that are used up at once, term by term. */
#include "tl_tile.h"
#include "tl_tile_xpulp.h"
#include "tl_update.h"

#ifdef TL_XPULP_TILES
#define TL_STEP TL_MAC
#endif
typedef float word;

static void pack(const tl_matmul *p, int right, int at, word *dst)
{
    const int step = right ? p->b_n : p->a_m, term = right ? p->b_k : p->a_k;
    tl_tile_pack(dst, (right ? p->b : p->a) + at * step, step, term, tl_min(4, (right ? p->n : p->m) - at), p->k);
}

/* A chain of multiply-adds, which is added to nothing. */
static void sums_of(float *sums, const word *a, const word *b, int terms)
{
    const tl_panel_out out = {.cols = 4, .dense = 1, .row_end = 4, .first = 1, .pause = 1, .tile = sums};
    tl_tile_panel(&out, a, 0, 4, b, 4, terms);
}

#include "tl_update.inc"

void tl_matmul_update_f32(const tl_matmul_update *u)
{
    update(u, u->product.k);
}
