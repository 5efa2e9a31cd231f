/* The columns of a weight gradient: what one tap of one input channel meets; internal to c_lib/kernels. */
#ifndef TL_COLUMNS_H
#define TL_COLUMNS_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_element.h"
#include "tl_outputs.h"

/* One kernel column: the outputs ox of a row that it meets inside the image, and where. */
typedef struct {
    int base;   /* element of x that output (n, oy, ox) = 0 meets; maybe outside */
    int row;    /* its image row */
    int lo, hi; /* outputs lo .. hi - 1 of a row are inside */
} tl_column;

/* The kernel columns index .. index + 3 of a group, and where their sums go; beyond the last one it is repeated. */
void tl_columns_of(const tl_conv2d *a, int group, int index, tl_panel_out *out, tl_column *at);

/* dst[4*i] = what kc outputs from `from` on meet, which steps behind them. */
void tl_column_pack(const tl_conv2d *a, const tl_column *at, tl_output *from, int kc, tl_element *dst);
#endif
