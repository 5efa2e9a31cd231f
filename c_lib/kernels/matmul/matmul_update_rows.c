/* Weight gradients that are used up at once, of rows and columns of terms, in whole tiles: of convolutions by one tap.
 * Scratch: a panel of columns for each core. */
#include "tl_update_floats.h"

typedef float word;
#define TL_SUMS sums_of
#define TL_PACK_COLUMN pack_column
#undef TL_MOVE_TILES

static float *panel_of(const tl_matmul *p)
{
    return (float *)p->scratch + tl_core_id() * 4 * p->k;
}

static void pack_column(const tl_matmul *p, int n)
{
    tl_tile_pack(panel_of(p), p->b + n * p->b_n, p->b_n, p->b_k, 4, p->k);
}

static void sums_of(float *sums, const float *a, int a_m, const float *b, int b_k, int terms)
{
    const tl_panel_out out = {.cols = 4, .dense = 1, .row_end = 4, .first = 1, .pause = 1, .tile = sums};
    tl_tile_rows(&out, a, a_m, b, b_k, terms);
}

#include "tl_update.inc"

void tl_matmul_update_rows_f32(const tl_matmul_update *u)
{
    const tl_matmul *p = &u->product;
    const panels q = {.a = p->a, .b = panel_of(p), .a_tile = 4 * p->a_m, .a_k = p->a_m, .b_k = 4, .steps = p->k};
    TL_PROMISE(p->batch == 1 && p->init && !p->accumulate && p->k > 1 && p->k <= TL_KC);
    TL_PROMISE(p->a_k == 1 && p->m % 4 == 0 && p->n % 4 == 0);
    move_all(u, &q);
}
