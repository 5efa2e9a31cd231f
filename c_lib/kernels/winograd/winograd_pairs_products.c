/* Products of a row of transformed pairs: channels x tiles, for each of its four elements. */
#define TL_HALVES
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

void tl_winograd_pairs_products(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs *t = of;
    const int each = t->pairs * TL_WINOGRAD_PAIR, fours = (t->rows + 3) / 4, alone = t->first && t->last;
    for (int four = first; four < first + count; ++four) {
        const int unit = at * fours + four;
        float *m = t->m + (alone ? tl_core_id() : unit) * TL_WINOGRAD_UNIT, *y = t->y + unit * TL_WINOGRAD_UNIT;
        if (t->first)
            new_sums(t->u + four * each, t->v + at * each, t->pairs, m);
        else
            more_sums(t->u + four * each, t->v + at * each, t->pairs, m);
        if (t->last) {
            tl_winograd_pairs_add(t->row, m, y);
            if (t->row == 3)
                tl_winograd_pairs_outputs(t, y, at, four);
        }
    }
}
