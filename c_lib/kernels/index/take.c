/* Elements at indices, zero where the index is ignored. */
#include "tl_row_of.h"

void tl_take_32(const tl_take *a)
{
    const tl_word *x = a->x;
    tl_word *y = a->y;
    int lo, hi;
    tl_split(a->outer * a->count, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->count, m = u % a->count;
        const int32_t *index = a->index + o * a->index_outer + m * a->index_count;
        const tl_word *plane = x + o * a->x_outer;
        for (int i = 0; i < a->inner; i++) {
            const int row = tl_row_of(index[i * a->index_inner], a->extent, a->ignore);
            y[o * a->y_outer + m * a->y_row + i] = row < 0 ? 0 : plane[row * a->x_row + i * a->x_inner];
        }
    }
}
