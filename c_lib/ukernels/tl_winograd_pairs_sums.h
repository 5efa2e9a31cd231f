/* Sums of pairs of a row of the transformed 4 x 4, for each of its four elements: m[4 elements][4][4], of u[pair][4
 * elements][4] and v[pair][4 elements][4]. */
#ifndef TL_WINOGRAD_PAIRS_SUMS_H
#define TL_WINOGRAD_PAIRS_SUMS_H
#include "tl_winograd_pairs.h"

#ifdef TL_XF16AUXVEC
#include "tl_winograd_pairs_xpulp.inc"
#else
#define TL_PAIR_STEP 16
#include "tl_pairs_plain.inc"

static void more_sums(const tl_pair *u, const tl_pair *v, int pairs, float *m)
{
    for (int e = 0; e < 4; ++e)
        add_pairs(u + 4 * e, v + 4 * e, pairs, m + 16 * e);
}

static void new_sums(const tl_pair *u, const tl_pair *v, int pairs, float *m)
{
    for (int i = 0; i < 64; ++i)
        m[i] = 0.0f;
    more_sums(u, v, pairs, m);
}
#endif
#endif
