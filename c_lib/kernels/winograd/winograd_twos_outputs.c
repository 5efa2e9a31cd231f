/* What two rows of the products add to the outputs: upper ones begin with the first row, lower ones with the second. */
#include "tl_winograd_twos_tiles.h"

static __attribute__((noinline)) void upper(const tl_eight_run *r)
{
    tl_eight_upper(r, 2);
}

static __attribute__((noinline)) void lower(const tl_eight_run *r)
{
    tl_eight_lower(r, 2);
}

void tl_winograd_twos_outputs(const tl_winograd *t, int at, int first, int count)
{
    const tl_gather *g = t->g;
    const int number = 4 * (t->panel + at), left = g->n * t->high * t->wide - number;
    const int channel = t->group * g->rows + t->channel + first;
    if (t->wide % 2 != 0) {
        tl_winograd_apart_outputs(t, number, tl_min(4, left), first, count);
        return;
    }
    tl_eight_run r = tl_eight_run_of(t, first, count);
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    r.to[0] = tl_eight_place(t, &tile, channel), r.places = left > 2 ? 2 : 1;
    ++tile.x, tl_next_tile(&tile, t->high, t->wide);
    r.to[1] = tl_eight_place(t, &tile, channel);
    t->row == 0 ? upper(&r) : lower(&r);
}
