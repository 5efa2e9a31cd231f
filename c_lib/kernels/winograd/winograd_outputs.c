/* What a row of the products adds to the outputs. The first row is where upper outputs begin; the second and the third,
 * by halves, are added to upper outputs, and lower ones begin with the second. */
#include "tl_winograd_outputs.h"

/* Four tiles, all inside. */
static __attribute__((noinline)) void four(const tl_output_run *of, int count)
{
    const tl_output_run r = *of; /* outputs are floats, too: its own would be read again after each */
    const float *m0 = r.m, *m1 = m0 + r.element, *m2 = m1 + r.element, *m3 = m2 + r.element, *at = r.bias;
    float *to = r.to;
    for (; count > 0; --count, m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += r.channel) {
        const float share[8] = {TL_EVEN(0), TL_ODD(0), TL_EVEN(1), TL_ODD(1),
                                TL_EVEN(2), TL_ODD(2), TL_EVEN(3), TL_ODD(3)};
        tl_output_put(&r, to, share, at ? *at++ : 0.0f, 8);
    }
}

void tl_winograd_outputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int filled = (t->rows + 3) & ~3, channel = t->group * g->rows + t->channel + first, row = t->row;
    const int number = 4 * (t->panel + at);
    const tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    tl_output_run r = {.m = t->m + (at * filled + first) * 4,
                       .element = t->panels * filled * 4,
                       .channel = g->out_p.c,
                       .bias = g->bias ? g->bias + channel : NULL,
                       .half = row == 1 || row == 2,
                       .other = row ? g->out_p.h : 0};
    if (tl_tiles_beside(t, &tile) >= 4) {
        tl_output_locate(t, &tile, channel, &r);
        four(&r, count);
    } else {
        tl_winograd_outputs_apart(t, tile, g->n * t->high * t->wide - number, channel, &r, count);
    }
}
