/* What Winograd's tiles that are not four side by side share with those that are; internal to c_lib/kernels. They have
 * files of their own, the names of which put them before all others: what cores go through again and again then lies in
 * one piece, as their 4 kB of instructions want it. */
#ifndef TL_WINOGRAD_APART_H
#define TL_WINOGRAD_APART_H
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */

/* The column where a tile's inputs begin. */
static inline int tl_input_column(const tl_winograd *t, const tl_tile_at *tile)
{
    return t->g->x.in0 - (t->turned ? 2 : 0) + 2 * tile->x;
}

static inline tl_two_rows tl_input_rows(const tl_winograd *t, const tl_tile_at *tile, const float *in, int column)
{
    const tl_gather *g = t->g;
    tl_two_rows rows = {.p = t->zeros, .p_step = g->in_p.c};
    tl_winograd_rows(&rows, in + tile->n * g->in_p.n + column, g->y.in0 - (t->turned ? 2 : 0) + 2 * tile->y, t->row,
                     g->y.extent, g->in_p.h);
    return rows;
}

/* Tiles from `tile` on, which are in several rows or reach out of the image: two at a time where they can. */
void tl_winograd_inputs_apart(const tl_winograd *t, tl_tile_at tile, int left, const float *in, float *v, int count);
#endif
