/* The 4 x 4 micro-kernels behind the matrix products and the convolutions; internal to c_lib/kernels.
 *
 * A call computes tiles tile[i][j] = sum over kc <= TL_KC of A[i][k] * B[k][j], one chain of fused multiply-adds per
 * element, one below the other from row out->row to out->row_end, and adds them to the output. If an operand is not
 * contiguous over a block, several calls compute a single tile: all but the last one set `pause`, all but the first one
 * `resume`. */
#ifndef TL_TILE_H
#define TL_TILE_H
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns") /* which would move loads up until the registers run out */
#endif
#include "tl_block.h"
#include "tl_hal.h"
#include "tl_pointer.h"

#define TL_PANEL (TL_KC * 4) /* floats of a packed operand panel [TL_KC][4] */

/* Where the tiles of a panel of four output columns go. Row i, column j is c[i*c_m + c_n[j]]; init likewise. */
typedef struct {
    float *c;
    const float *init; /* what the first block is added to; NULL: zero */
    int c_m, i_m, cols;
    int c_n[4], i_n[4];
    int dense; /* c_n[j] == c_n[0] + j */
    int row, row_end;
    int first;      /* 1: start from init, 0: add to c */
    uint16_t *half; /* where c is to be, in halves, once a sum is complete; NULL: float results. Of kernels of halves */
    float *sums;    /* then those of incomplete tiles, 16 each */
    int last;       /* then 1: sums are complete */
    int resume, pause;
    float *tile; /* 16 floats: a paused tile, or one that is partly outside */
} tl_panel_out;

/* A: rows contiguous along k, a_m apart. B: 4 contiguous elements for each k, b_k apart. */
void tl_tile_rows(const tl_panel_out *out, const float *a, int a_m, const float *b, int b_k, int kc);

/* A: 4 contiguous elements for each k, a_k apart, and the next tile a_tile further on. B as above. */
void tl_tile_panel(const tl_panel_out *out, const float *a, int a_tile, int a_k, const float *b, int b_k, int kc);

/* dst[4*k + j] = src[j*s_j + k*s_k]; the last of `cols` columns stands for those that are missing. */
void tl_tile_pack(float *dst, const float *src, int s_j, int s_k, int cols, int kc);

static inline int tl_max(int a, int b)
{
    return a > b ? a : b;
}

static inline int tl_min(int a, int b)
{
    return a < b ? a : b;
}
#endif
