/* The most frequent element of each line, of several the smallest, and its last place. What is no number equals
 * none. */
#include "tl_index.h"

void tl_mode_f32(const tl_lines *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner;
        const float *x = a->x + o * a->x_outer + i;
        int most = -1, place = 0;
        for (int c = 0; c < a->extent; c++) {
            const float value = x[c * a->x_row];
            int often = 0, last = c;
            for (int d = 0; d < a->extent; d++)
                if (x[d * a->x_row] == value) {
                    often++;
                    last = d;
                }
            if (often > most || (often == most && value < x[place * a->x_row])) {
                most = often;
                place = last;
            }
        }
        a->y[o * a->y_outer + i] = x[place * a->x_row];
        a->index[o * a->index_outer + i] = place;
    }
}
