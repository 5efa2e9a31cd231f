/* Elements added or written at indices: every row of the result has one owner, who goes through the whole index. */
#include "tl_row_of.h"

void tl_put_f32(const tl_put *a)
{
    int lo, hi; /* the rows of y that are mine */
    tl_split(a->outer * a->rows, 1, &lo, &hi);
    for (int o = lo / a->rows; o * a->rows < hi; o++) {
        const int mine = lo - o * a->rows > 0 ? lo - o * a->rows : 0;
        const int end = hi - o * a->rows < a->rows ? hi - o * a->rows : a->rows;
        float *y = a->y + o * a->y_outer;
        for (int row = mine; row < end; row++)
            for (int i = 0; i < a->inner; i++)
                y[row * a->y_row + i] = a->init ? a->init[o * a->init_outer + row * a->init_row + i] : 0.0f;
        for (int m = 0; m < a->count; m++) {
            const int32_t *index = a->index + o * a->index_outer + m * a->index_count;
            const float *g = a->g + o * a->g_outer + m * a->g_count;
            for (int i = 0; i < a->inner; i++) {
                const int row = tl_row_of(index[i * a->index_inner], a->extent, a->ignore) - a->first;
                if (row < mine || row >= end) {
                    if (a->index_inner == 0)
                        break;
                    continue;
                }
                float *target = &y[row * a->y_row + i];
                *target = a->set ? g[i * a->g_inner] : *target + g[i * a->g_inner];
            }
        }
    }
}
