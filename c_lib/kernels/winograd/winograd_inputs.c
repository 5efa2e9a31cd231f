/* A row of the transformed 4 x 4 inputs, tiles side by side. */
#include "tl_winograd_apart.h"
#include "tl_winograd_inputs.h"

static __attribute__((noinline)) void four(const tl_two_rows *of, int left, int right, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    const int p_step = of->p_step, q_step = of->q_step;
    for (; count > 0; --count, v += 16, p += p_step, q += q_step)
        tl_transform_four(p, q, k, left, right, v, 1);
}

void tl_winograd_inputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int number = 4 * (t->panel + at);
    const float *in = g->in + (t->group * g->chans + t->chan + first) * g->in_p.c;
    float *v = t->v + (at * t->chans + first) * 16;
    const tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    const int x = tl_input_column(t, &tile);
    if (tile.x + 4 <= t->wide && x >= -1 && x + 9 <= g->x.extent) {
        const tl_two_rows rows = tl_input_rows(t, &tile, in, x);
        four(&rows, x >= 0, x + 9 < g->x.extent, v, count);
    } else {
        tl_winograd_inputs_apart(t, tile, g->n * t->high * t->wide - number, in, v, count);
    }
}
