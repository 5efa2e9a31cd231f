/* Input gradients of 3 x 3 convolutions of stride 2, by squares of 2 x 2 outputs; internal to c_lib/kernels. With u =
 * row + pad, outputs u = 2r + 1 meet dL/dy's row r by the middle kernel row, outputs u = 2r + 2 its rows r + 1 and r by
 * the first and the last, and so with columns: a square meets 2 x 2 neighbours by nine taps. An item of work is some
 * squares side by side of one channel. */
#ifndef TL_SQUARES_H
#define TL_SQUARES_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"
#include "tl_promise.h"
#include "tl_terms.h"

#define TL_SQUARES_OF static inline __attribute__((always_inline))

/* Where squares are. */
typedef struct {
    int top, left;    /* row and column of dL/dy of the first one */
    int rows, panels; /* so many squares in a panel */
} tl_grid;

TL_SQUARES_OF tl_grid tl_grid_of(const tl_conv2d *a, int squares)
{
    tl_grid g = {.top = (a->pad_h - 1) >> 1, .left = (a->pad_w - 1) >> 1};
    g.rows = ((a->pad_h + a->h - 2) >> 1) - g.top + 1;
    g.panels = (((a->pad_w + a->wd - 2) >> 1) - g.left + squares) / squares;
    return g;
}

/* Outputs that are in the image, two rows of `across`: from, or back to t. */
static __attribute__((noinline)) void tl_squares_edge(const tl_conv2d *a, float *out, int row, int column, float *t,
                                                      int across, int back)
{
    for (int i = 0; i < 2 * across; ++i) {
        const int lower = i >= across, y = row + lower, from = lower ? across : 0, x = column + i - from;
        if ((unsigned)y >= (unsigned)a->h || (unsigned)x >= (unsigned)a->wd)
            continue;
        float *o = out + (lower ? a->xp.h : 0) + i - from;
        if (back)
            *o = t[i];
        else
            t[i] = *o;
    }
}
#endif
