/* Four output pixels of a convolution, and the panel of inputs that they read; internal to c_lib/kernels. */
#ifndef TL_PIXELS_H
#define TL_PIXELS_H
#include "tl_gather.h"

enum { TL_SLACK = 8 * 4 };

/* Four output pixels: where they are read and written, and the taps of a block with the pixels that each hits. */
typedef struct {
    tl_panel_out out;
    int at[4];          /* element of channel 0 that tap (0, 0) reads; outside the image for some border pixels */
    int row[4], col[4]; /* the same position as a row and a column */
    tl_element *pack;   /* [TL_KC][4], and TL_SLACK on either side */
    int *table; /* [taps], or [TL_KC] from the block's first tap on: byte offset << 4 | mask of the pixels inside */
    int full;   /* all taps are inside for all pixels */
    int side_by_side; /* the pixels read neighbours */
    int in_a_row;     /* they are in the same row */
} tl_pixels;

/* The pixels whose position at[j] + shift lies within the extent, one bit each. */
static inline int tl_inside(const int *at, int shift, int extent, int cols)
{
    int mask = 0;
    for (int j = 0; j < cols; ++j)
        mask |= ((unsigned)(at[j] + shift) < (unsigned)extent) << j;
    return mask;
}

/* Pixels p .. p + 3 in the order (n, row, column); those beyond the last repeat it and are masked out. */
void tl_pixels_locate(const tl_gather *g, int p, tl_pixels *px);

/* The table of the taps. Consecutive panels away from the border share theirs. */
void tl_pixels_table(const tl_gather *g, tl_pixels *px);

/* The inputs of terms k .. k + kc - 1 of the flat index (channel, ty, tx), by the table. */
void tl_pixels_gather(const tl_gather *g, tl_pixels *px, const tl_element *in, int k, int kc);
#endif
