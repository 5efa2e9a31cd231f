/* Whole rows at indices, one index a row. */
#include "tl_promise.h"
#include "tl_row_of.h"

void tl_take_rows_32(const tl_take *a)
{
    int lo, hi;
    TL_PROMISE(a->index_inner == 0 && a->x_inner == 1);
    tl_split(a->outer * a->count, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->count, m = u % a->count;
        const int row = tl_row_of(a->index[o * a->index_outer + m * a->index_count], a->extent, a->ignore);
        const tl_word *from = (const tl_word *)a->x + o * a->x_outer + row * a->x_row;
        tl_word *to = (tl_word *)a->y + o * a->y_outer + m * a->y_row;
        for (int i = 0; i < a->inner; i++)
            to[i] = row < 0 ? 0 : from[i];
    }
}
