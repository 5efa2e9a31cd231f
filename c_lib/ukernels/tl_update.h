/* Weights that a product moves by its sums, panel by panel; internal to c_lib/kernels. */
#ifndef TL_UPDATE_H
#define TL_UPDATE_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_matmul.h"
#include "tl_promise.h"

/* Rows of four columns, or of the last ones: c = init + minus_rate * sum, rounded once. */
typedef struct {
    float minus_rate;
    const float *init;
    float *c, *record;
    int c_m, c_n, i_m, i_n, r_m, r_n;
    int cols, row, row_end;
} tl_moved;

/* Tiles of rows `first` on, so many at most, of the panel that begins at a column. */
static inline tl_moved tl_moved_of(const tl_matmul_update *u, int n, int first, int count)
{
    const tl_matmul *p = &u->product;
    return (tl_moved){.minus_rate = -*u->rate,
                      .init = p->init + n * p->i_n,
                      .c = p->c + n * p->c_n,
                      .record = u->record ? u->record + n * u->r_n : NULL,
                      .c_m = p->c_m,
                      .c_n = p->c_n,
                      .i_m = p->i_m,
                      .i_n = p->i_n,
                      .r_m = u->r_m,
                      .r_n = u->r_n,
                      .cols = tl_min(4, p->n - n),
                      .row = 4 * first,
                      .row_end = tl_min(p->m, 4 * (first + count))};
}

/* Do whole tiles have rows that lie in one piece? */
static inline int tl_moved_whole(const tl_moved *w)
{
    return w->cols == 4 && w->c_n == 1 && w->i_n == 1 && (!w->record || w->r_n == 1);
}

/* The part of a tile of sums that is there. */
static inline void tl_move(const tl_moved *w, int row, const float *sums)
{
    for (int i = 0; i < tl_min(4, w->row_end - row); ++i)
        for (int j = 0; j < w->cols; ++j) {
            const float sum = sums[4 * i + j], old = w->init[(row + i) * w->i_m + j * w->i_n];
            if (w->record)
                w->record[(row + i) * w->r_m + j * w->r_n] = sum;
            w->c[(row + i) * w->c_m + j * w->c_n] = __builtin_fmaf(w->minus_rate, sum, old);
        }
}
#endif
