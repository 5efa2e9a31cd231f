/* The largest or smallest element up to each one of its line, and its place; the last of equals. What is no number
 * stays. */
#include "tl_index.h"

void tl_running_f32(const tl_lines *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner;
        const float *x = a->x + o * a->x_outer + i;
        float *y = a->y + o * a->y_outer + i, best = x[0];
        int32_t *index = a->index + o * a->index_outer + i;
        int place = 0;
        for (int c = 0; c < a->extent; c++) {
            const float value = x[c * a->x_row];
            if (value != value || (a->largest ? value >= best : value <= best)) {
                best = value;
                place = c;
            }
            y[c * a->y_row] = best;
            index[c * a->index_row] = place;
        }
    }
}
