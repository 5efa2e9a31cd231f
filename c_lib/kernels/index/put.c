/* Elements added or written at indices: every row of the result has one owner, who goes through the whole index. */
#include "tl_row_of.h"

void tl_put_f32(const tl_put *a)
{
    int lo, hi; /* the rows of y that are mine */
    tl_split(a->outer * a->extent, 1, &lo, &hi);
    for (int i = lo * a->inner; i < hi * a->inner; i++)
        a->y[i] = a->init ? a->init[i] : 0.0f;
    for (int o = lo / a->extent; o * a->extent < hi; o++) {
        for (int m = 0; m < a->count; m++) {
            const int32_t *index = a->index + o * a->index_outer + m * a->index_count;
            const float *g = a->g + o * a->g_outer + m * a->g_count;
            for (int i = 0; i < a->inner; i++) {
                const int row = tl_row_of(index[i * a->index_inner], a->extent, a->ignore);
                const int place = o * a->extent + row;
                if (row < 0 || place < lo || place >= hi) {
                    if (a->index_inner == 0)
                        break;
                    continue;
                }
                float *target = &a->y[place * a->inner + i];
                *target = a->set ? g[i * a->g_inner] : *target + g[i * a->g_inner];
            }
        }
    }
}
