/* Reading and writing at run-time indices. */
#include "tl_index.h"

void tl_pick_f32(const tl_pick *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner, c = a->index[u];
        const int counts = c != a->ignore && c >= 0 && c < a->extent;
        a->y[u] = counts ? a->x[o * a->x_outer + c * a->inner + i] : 0.0f;
    }
}

void tl_place_f32(const tl_place *a)
{
    int lo, hi;
    tl_split(a->outer * a->extent, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->extent, c = u % a->extent;
        const int32_t *index = a->index + o * a->inner;
        for (int i = 0; i < a->inner; i++)
            a->y[u * a->inner + i] = index[i] == c ? a->g[o * a->inner + i] : 0.0f;
    }
}
