/* Two rows of the transformed 4 x 4 inputs, two tiles side by side at a time: no more code than a core holds. */
#include "tl_winograd_twos_tiles.h"

/* Of each of so many channels; the columns between the first and the last of six are inside. */
static __attribute__((noinline)) void two(const tl_three_rows *r, int left, int right, float *v, int count)
{
    const float *p = r->of[0], *q = r->of[1], *s = r->of[2], k = r->sign;
    const int p_step = r->step[0], q_step = r->step[1], s_step = r->step[2];
    for (; count > 0; --count, v += TL_EIGHT, p += p_step, q += q_step, s += s_step) {
        float a = 0.0f, a_ = 0.0f, f = 0.0f, f_ = 0.0f;
        if (left)
            TL_BOTH(a, 0);
        const float TL_BOTH(b, 1), TL_BOTH(c, 2), TL_BOTH(d, 3), TL_BOTH(e, 4);
        TL_ACROSS(v, a, b, c, d), TL_ACROSS(v + 16, a_, b_, c_, d_);
        if (right)
            TL_BOTH(f, 5);
        TL_ACROSS(v + 1, c, d, e, f), TL_ACROSS(v + 17, c_, d_, e_, f_);
    }
}

void tl_winograd_twos_inputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const int number = 4 * (t->panel + at), end = tl_min(4, t->g->n * t->high * t->wide - number);
    float *v = t->v + (at * t->chans + first) * TL_EIGHT;
    if (t->wide % 2 != 0) {
        tl_winograd_apart_inputs(t, number, end, first, v, count);
        return;
    }
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    for (int j = 0; j < end; j += 2) {
        TL_ONE_POINTER(j) /* not two copies */
        const tl_three_rows r = tl_three_rows_of(t, &tile, first);
        const int x = tl_eight_column(t, &tile);
        two(&r, x >= 0, x + 5 < t->g->x.extent, v + j, count);
        ++tile.x, tl_next_tile(&tile, t->high, t->wide);
    }
}
