/* Products of which there are several blocks of terms. */
#include "tl_winograd.h"

/* Sums of several blocks, or of a part of one: its chains are put aside and go on with the next channels. Those of one
 * block stay as they are. */
void tl_winograd_blocks(const tl_winograd *t, const float *u, const float *v, int unit)
{
    tl_panel_out out = {.c_m = 4, .cols = 4, .c_n = {0, 1, 2, 3}, .dense = 1, .row_end = 4};
    out.c = t->m + unit * 16, out.tile = t->chain + unit * 16;
    for (int k = 0; k < t->chans; k += TL_KC) {
        const int kc = tl_min(TL_KC, t->chans - k), begin = t->chan + k, end = begin + kc;
        out.first = begin < TL_KC;
        out.resume = begin % TL_KC != 0;
        out.pause = t->g->chans <= TL_KC || (end % TL_KC != 0 && end < t->g->chans);
        tl_tile_panel(&out, u + k * 16, 0, 16, v + k * 16, 16, kc);
    }
}
