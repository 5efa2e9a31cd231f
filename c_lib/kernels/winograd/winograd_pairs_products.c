/* Products of a row of transformed pairs: channels x tiles, for each of its four elements. */
#define TL_HALVES
#include "tl_winograd_pairs.h"
#include "tl_winograd_pairs_sums.h"

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
