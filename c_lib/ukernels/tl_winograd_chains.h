/* Products of panels in whole chains; internal to c_lib/kernels. Steps are known, and results are stored as they are: a
 * third of the instructions around a tile of tile.c. */
#ifndef TL_WINOGRAD_CHAINS_H
#define TL_WINOGRAD_CHAINS_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_terms.h"
#include "tl_winograd_tiles.h"
#include "tl_winograd_xpulp.h"

#define TL_TAKE(i) c##i##0 = m[4 * i], c##i##1 = m[4 * i + 1], c##i##2 = m[4 * i + 2], c##i##3 = m[4 * i + 3];
#define TL_KEEP(i) m[4 * i] = c##i##0, m[4 * i + 1] = c##i##1, m[4 * i + 2] = c##i##2, m[4 * i + 3] = c##i##3;

static inline __attribute__((always_inline)) void tl_chains(const float *u, int u_step, const float *v, float *m,
                                                            int count, int terms, int resumed)
{
    enum { a_k = 16, b_k = 16 };
#ifdef TL_XPULP_TILES
    if (count > 0)
        tl_xpulp_chains(u, u_step, v, m, count, terms, resumed);
#else
    for (; count > 0; --count, u += u_step, m += 16) {
        const float *a = u, *b = v;
        TL_EACH_ROW(TL_ZERO_ROW)
        if (resumed) {
            TL_EACH_ROW(TL_TAKE)
        }
        TL_TERMS_OF_PANEL(terms)
        TL_EACH_ROW(TL_KEEP)
    }
#endif
}
#endif
