/* Pairs of neighbouring channels of four rows of weights at one tap, where other taps lie between; internal to
 * c_lib/kernels. */
#ifndef TL_PACK_TAPS_H
#define TL_PACK_TAPS_H
#include "tl_pack_xpulp.h"
#include "tl_tile_pairs.h"

/* So many pairs, one or more, of rows `row` bytes, channels `chan` bytes apart; four words each, `skip` bytes between
 * them. */
static inline __attribute__((always_inline)) void tl_pack_tap(tl_pair *to, int skip, const char *p0, int row, int chan,
                                                              int count, int floats)
{
#ifdef TL_XF16AUXVEC
    const char *p1 = p0 + row, *p2 = p1 + row, *p3 = p2 + row;
    const int step = chan;
    to -= skip / 4;
    if (floats)
        TL_PACK_LOOP("34", TL_SKIP TL_FOUR_LINES(TL_LOAD_STEP, TL_PACK));
    else
        TL_PACK_LOOP("34", TL_SKIP TL_FOUR_LINES(TL_LOAD_HALF_STEP, TL_PAIR_OF));
#else
    for (; count > 0; --count, p0 += 2 * chan, to += 4 + skip / 4)
        for (int j = 0; j < 4; ++j)
            to[j] = tl_pair_at(p0 + j * row, p0 + j * row + chan, floats);
#endif
}
#endif
