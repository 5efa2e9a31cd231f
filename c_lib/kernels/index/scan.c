/* Running sums and products, each line by one core. */
#include "tl_index.h"

void tl_scan_f32(const tl_lines *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner;
        const float *x = a->x + o * a->x_outer + i;
        float *y = a->y + o * a->y_outer + i;
        float total = a->product ? 1.0f : 0.0f;
        for (int c = 0; c < a->extent; c++) {
            const float value = x[c * a->x_row];
            total = a->product ? total * value : total + value;
            y[c * a->y_row] = total;
        }
    }
}
