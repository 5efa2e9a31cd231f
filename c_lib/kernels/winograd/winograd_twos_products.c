/* Products of two rows of the transformed 4 x 4, and what becomes of them. */
#include "tl_winograd_twos.h"

void tl_winograd_twos_products(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const int each = t->chans * TL_EIGHT;
    for (int four = first, end = first + count; four < end; four += TL_TOGETHER) {
        const int fours = tl_min(TL_TOGETHER, end - four);
        tl_winograd_twos_chains(t->u + four * each, t->v + at * each, t->m, fours, t->chans);
        tl_winograd_twos_outputs(t, at, 4 * four, tl_min(4 * fours, t->rows - 4 * four));
    }
}
