/* Products of a row of the transformed 4 x 4: channels x tiles for each of its elements. */
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */

/* Sums of several blocks, or of a part of one: its chains are put aside and go on with the next channels. Those of one
 * block stay as they are, as above. */
static __attribute__((noinline)) void blocks(const tl_winograd *t, const float *u, const float *v, int unit)
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

void tl_winograd_products(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const int step = t->chans * 16, unit = at * ((t->rows + 3) / 4) + first;
    const int element = at / t->panels, panel = at - element * t->panels;
    const float *u = t->u + first * step + element * 4, *v = t->v + panel * step + element * 4;
    if (t->chans <= TL_KC && t->chans == t->g->chans) {
        tl_winograd_chains(u, step, v, t->m + unit * 16, count, t->chans, 1);
        return;
    }
    for (int i = 0; i < count; ++i)
        blocks(t, u + i * step, v, unit + i);
}
