/* What products of halves pack: four rows or columns of an operand make a panel; internal to c_lib/kernels. */
#ifndef TL_PAIRS_SIDE_H
#define TL_PAIRS_SIDE_H
#include "tl_tile_pairs.h"
#include "tl_matmul.h"

typedef struct {
    const tl_half *halves;
    const float *floats;          /* instead, or NULL */
    int count, batch, step, term; /* rows or columns; elements to the next item, row or column, and term */
} tl_pairs_side;

static inline tl_pairs_side tl_pairs_left(const tl_matmul *p)
{
    return (tl_pairs_side){p->a_f16, p->floats & 1 ? p->a : NULL, p->m, p->a_b, p->a_m, p->a_k};
}

static inline tl_pairs_side tl_pairs_right(const tl_matmul *p)
{
    return (tl_pairs_side){p->b_f16, p->floats & 2 ? p->b : NULL, p->n, p->b_b, p->b_n, p->b_k};
}

/* From row or column `at` and term k of an item on. */
static inline void tl_pairs_side_pack(tl_pair *dst, const tl_pairs_side *s, int item, int at, int k, int terms)
{
    const int first = item * s->batch + at * s->step + k * s->term, cols = tl_min(4, s->count - at);
    if (s->floats)
        tl_pairs_round(dst, s->floats + first, s->step, s->term, cols, terms);
    else
        tl_pairs_pack(dst, s->halves + first, s->step, s->term, cols, terms);
}
#endif
