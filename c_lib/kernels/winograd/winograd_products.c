/* Products of a row of the transformed 4 x 4: channels x tiles for each of its elements. */
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */

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
        tl_winograd_blocks(t, u + i * step, v, unit + i);
}
