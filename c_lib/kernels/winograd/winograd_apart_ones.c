/* Inputs and outputs of tiles of which a row has no even number, one by one, two rows of the transformed 4 x 4 at a
 * time. */
#include "tl_winograd_twos_tiles.h"

/* One tile; both columns in its middle are inside. */
static __attribute__((noinline)) void one(const tl_three_rows *r, int left, int right, float *v, int count)
{
    const float *p = r->of[0], *q = r->of[1], *s = r->of[2], k = r->sign;
    for (; count > 0; --count, v += TL_EIGHT, p += r->step[0], q += r->step[1], s += r->step[2]) {
        float a = 0.0f, a_ = 0.0f, d = 0.0f, d_ = 0.0f;
        if (left)
            TL_BOTH(a, 0);
        const float TL_BOTH(b, 1), TL_BOTH(c, 2);
        if (right)
            TL_BOTH(d, 3);
        TL_ACROSS(v, a, b, c, d), TL_ACROSS(v + 16, a_, b_, c_, d_);
    }
}

void tl_winograd_apart_inputs(const tl_winograd *t, int number, int tiles, int chan, float *v, int count)
{
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    for (int j = 0; j < tiles; ++j) {
        const tl_three_rows r = tl_three_rows_of(t, &tile, chan);
        const int x = tl_eight_column(t, &tile);
        one(&r, x >= 0, x + 3 < t->g->x.extent, v + j, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}

static __attribute__((noinline)) void upper(const tl_eight_run *r)
{
    tl_eight_upper(r, 1);
}

static __attribute__((noinline)) void lower(const tl_eight_run *r)
{
    tl_eight_lower(r, 1);
}

void tl_winograd_apart_outputs(const tl_winograd *t, int number, int tiles, int first, int count)
{
    const int channel = t->group * t->g->rows + t->channel + first;
    tl_eight_run r = tl_eight_run_of(t, first, count);
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    for (int j = 0; j < tiles; ++j, ++r.m) {
        r.to[0] = tl_eight_place(t, &tile, channel);
        t->row == 0 ? upper(&r) : lower(&r);
        tl_next_tile(&tile, t->high, t->wide);
    }
}
