/* Floats that move weights, term by term; internal to c_lib/kernels. */
#ifndef TL_UPDATE_FLOATS_H
#define TL_UPDATE_FLOATS_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_terms.h"
#include "tl_tile_xpulp.h"
#include "tl_update.h"

/* A chain of multiply-adds, which is added to nothing. */
static inline void tl_update_sums(float *sums, const float *a, int a_k, const float *b, int b_k, int terms)
{
    const tl_panel_out out = {.cols = 4, .dense = 1, .row_end = 4, .first = 1, .pause = 1, .tile = sums};
    tl_tile_panel(&out, a, 0, a_k, b, b_k, terms);
}

#ifdef TL_XPULP_TILES
#define TL_STEP TL_MAC
#else
#define TL_RECORD_ROW(i) r[0] = c##i##0, r[1] = c##i##1, r[2] = c##i##2, r[3] = c##i##3, r += w->r_m;
#define TL_MOVE_ROW(i)                                                                                                 \
    q[0] = __builtin_fmaf(rate, c##i##0, p[0]), q[1] = __builtin_fmaf(rate, c##i##1, p[1]);                            \
    q[2] = __builtin_fmaf(rate, c##i##2, p[2]), q[3] = __builtin_fmaf(rate, c##i##3, p[3]), p += w->i_m, q += w->c_m;

/* The whole tiles at the beginning, if they are dense, from the registers that have their sums: panels of a are so far
 * apart. Returns where the others begin. */
static inline int tl_move_tiles(const tl_moved *w, const float *panel, int a_tile, int a_k, const float *column,
                                int b_k, int terms)
{
    const int end = tl_moved_whole(w) ? w->row_end - 3 : 0;
    int row = w->row;
    for (; row < end; row += 4, panel += a_tile) {
        const float *a = panel, *b = column;
        TL_EACH_ROW(TL_ZERO_ROW)
        TL_TERMS_OF_PANEL(terms)
        if (w->record) {
            float *r = w->record + row * w->r_m;
            TL_EACH_ROW(TL_RECORD_ROW)
        }
        const float rate = w->minus_rate, *p = w->init + row * w->i_m;
        float *q = w->c + row * w->c_m;
        TL_EACH_ROW(TL_MOVE_ROW)
    }
    return row;
}
#define TL_MOVE_TILES tl_move_tiles
#endif

#endif
