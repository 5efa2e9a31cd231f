/* The largest or smallest element of each line, and its place; the first that is no number, if there is one. */
#include "tl_index.h"

void tl_extreme_f32(const tl_lines *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner;
        const float *x = a->x + o * a->x_outer + i;
        float best = x[0];
        int place = 0;
        for (int c = 1; c < a->extent && best == best; c++) {
            const float value = x[c * a->x_row];
            if (!(a->largest ? value <= best : value >= best)) {
                best = value;
                place = c;
            }
        }
        a->y[o * a->y_outer + i] = best;
        a->index[o * a->index_outer + i] = place;
    }
}
