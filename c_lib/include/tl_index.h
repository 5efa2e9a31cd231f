/* Reading and writing at indices that the step computes or is given. See docs/kernels.md. */
#ifndef TL_INDEX_H
#define TL_INDEX_H
#include "tl_hal.h"

/* y[o][i] = x[o][index[o][i]][i]; zero where the index is `ignore` or outside of 0..extent-1. */
typedef struct {
    const float *x;       /* [outer][extent][inner], rows x_outer apart */
    const int32_t *index; /* [outer][inner] */
    float *y;             /* [outer][inner] */
    int outer, extent, inner, x_outer, ignore;
} tl_pick;

void tl_pick_f32(const tl_pick *a);

/* y[o][c][i] = c == index[o][i] ? g[o][i] : 0. */
typedef struct {
    const float *g;       /* [outer][inner] */
    const int32_t *index; /* [outer][inner] */
    float *y;             /* [outer][extent][inner] */
    int outer, extent, inner;
} tl_place;

void tl_place_f32(const tl_place *a);
#endif
