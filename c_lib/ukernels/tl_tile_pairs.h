/* The 4 x 4 micro-kernel of operands in half precision, whose terms are packed two by two; internal to
 * c_lib/kernels. */
#ifndef TL_TILE_PAIRS_H
#define TL_TILE_PAIRS_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_pair.h"
#include "tl_xpulp.h"

#define TL_PAIRS (TL_KC / 2)
#define TL_PAIRS_PANEL (TL_PAIRS * 4) /* words of a packed operand panel [TL_PAIRS][4] */

/* dst[4*i + j] = src[j*s_j + 2*i*s_k] and the term behind it; zero behind the last term. For j >= cols the last line
 * again: nobody asks for what is made of these. */
void tl_pairs_pack(tl_pair *dst, const tl_half *src, int s_j, int s_k, int cols, int kc);

/* The same of floats, rounded. */
void tl_pairs_round(tl_pair *dst, const float *src, int s_j, int s_k, int cols, int kc);

/* Makes such a panel, in place, of one as tl_tile_pack has it for floats: [kc][4]. */
void tl_pairs_of_terms(tl_half *panel, int kc);

/* Tiles of rows out->row .. out->row_end - 1, whose panels are so many words apart: further with the sums that the
 * output, or init, has. */
void tl_tile_pairs(const tl_panel_out *out, const tl_pair *a, int panel, const tl_pair *b, int pairs);

/* How all columns of a product lie, in bytes: results of so many each, and the floats that their sums begin with. */
typedef struct {
    int size, to_m, to_n, from_m, from_n; /* from row to row, and from column to column */
} tl_pairs_lie;

/* Rows of up to four columns; from: NULL begins with zeros. */
void tl_pairs_column(const tl_pairs_lie *lie, const tl_pair *a, int panel, const tl_pair *b, int pairs,
                     const void *from, void *to, int rows, int cols);
#endif
