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

enum { TL_PAIRS_WORDS, TL_PAIRS_FLOATS, TL_PAIRS_HALVES }; /* of two halves, one float, one half */

/* Tiles one below the other: panel after panel of a times the one of b. */
typedef struct {
    const tl_pair *a, *b;
    int more, skip;    /* pairs of a panel after the first one; bytes between two panels of a */
    const float *from; /* what they begin with; NULL: zero */
    int same;          /* one number for each row */
    void *to, *end;    /* where they go, and the row behind them */
    int from_m, to_m;  /* bytes from row to row */
    int stored;        /* as one of the above */
} tl_pairs_tiles;

/* One function for all, as it is long. */
__attribute__((noinline)) void tl_pairs_multiply(tl_pairs_tiles *t);

static inline int tl_pairs_halves_at(const void *to, int to_m)
{
    return ((uintptr_t)to | (unsigned)to_m) & 3 ? TL_PAIRS_HALVES : TL_PAIRS_WORDS;
}

/* Tiles that are partly outside, or do not lie row by row, of rows of up to four columns: t has the panels alone. */
void tl_pairs_part(tl_pairs_tiles *t, const tl_pairs_lie *lie, const char *from, char *to, int rows, int cols);

/* Rows of up to four columns; from: NULL begins with zeros. */
static inline __attribute__((always_inline)) void tl_pairs_column(const tl_pairs_lie *lie, const tl_pair *a, int panel,
                                                                  const tl_pair *b, int pairs, const char *from,
                                                                  char *to, int rows, int cols)
{
    const int same = lie->from_n == 0 && lie->from_m == sizeof(float), floats = lie->size == sizeof(float);
    const int whole = cols == 4 && lie->to_n == lie->size && (!from || same || lie->from_n == sizeof(float));
    const int count = whole ? rows >> 2 : 0;
    tl_pairs_tiles t = {.a = a, .b = b, .more = pairs - 1, .skip = 4 * (panel - 4 * pairs)};
    if (count > 0) {
        t.from = (const float *)from, t.from_m = lie->from_m, t.same = same;
        t.to = to, t.to_m = lie->to_m, t.end = to + 4 * count * lie->to_m;
        t.stored = floats ? TL_PAIRS_FLOATS : tl_pairs_halves_at(to, lie->to_m);
        tl_pairs_multiply(&t);
    }
    if (rows > 4 * count) {
        t.a = a + count * panel;
        tl_pairs_part(&t, lie, from ? from + 4 * count * lie->from_m : NULL, to + 4 * count * lie->to_m,
                      rows - 4 * count, cols);
    }
}
#endif
