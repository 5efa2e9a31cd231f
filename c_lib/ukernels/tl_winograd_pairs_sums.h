/* Sums of pairs for the elements of the transformed 4 x 4 that are there at once, four of a row or TL_ELEMENTS:
 * m[elements][4][4], of u[pair][elements][4] and v[pair][elements][4]. */
#ifndef TL_WINOGRAD_PAIRS_SUMS_H
#define TL_WINOGRAD_PAIRS_SUMS_H
#include "tl_winograd_pairs.h"

#ifndef TL_ELEMENTS
#define TL_ELEMENTS 4
#endif

#ifdef TL_XF16AUXVEC
#include "tl_winograd_pairs_xpulp.inc"
#else
#define TL_PAIR_STEP (4 * TL_ELEMENTS)
#include "tl_pairs_plain.inc"

static void more_sums(const tl_pair *u, const tl_pair *v, int pairs, float *m)
{
    for (int e = 0; e < TL_ELEMENTS; ++e)
        add_pairs(u + 4 * e, v + 4 * e, pairs, m + 16 * e);
}

static void new_sums(const tl_pair *u, const tl_pair *v, int pairs, float *m)
{
    for (int i = 0; i < 16 * TL_ELEMENTS; ++i)
        m[i] = 0.0f;
    more_sums(u, v, pairs, m);
}
#endif
#endif
