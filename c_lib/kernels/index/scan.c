/* Running sums and products, each line by one core. */
#include "tl_index.h"

void tl_scan_f32(const tl_scan *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int start = u / a->inner * a->extent * a->inner + u % a->inner;
        float total = a->product ? 1.0f : 0.0f;
        for (int c = 0; c < a->extent; c++) {
            const float x = a->x[start + c * a->inner];
            total = a->product ? total * x : total + x;
            a->y[start + c * a->inner] = total;
        }
    }
}
