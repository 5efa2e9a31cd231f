/* What a row of the products adds to outputs of tiles that are in several rows or not whole. */
#include "tl_winograd_outputs.h"

/* Two. */
static __attribute__((noinline)) void two(const tl_output_run *of, int count)
{
    const tl_output_run r = *of;
    const float *m0 = r.m, *m1 = m0 + r.element, *m2 = m1 + r.element, *m3 = m2 + r.element, *at = r.bias;
    float *to = r.to;
    for (; count > 0; --count, m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += r.channel) {
        const float share[4] = {TL_EVEN(0), TL_ODD(0), TL_EVEN(1), TL_ODD(1)};
        tl_output_put(&r, to, share, at ? *at++ : 0.0f, 4);
    }
}

/* One tile, perhaps without its second column. */
static __attribute__((noinline)) void one(const tl_output_run *of, int wide, int count)
{
    const tl_output_run r = *of;
    const float *m0 = r.m, *m1 = m0 + r.element, *m2 = m1 + r.element, *m3 = m2 + r.element, *at = r.bias;
    float *to = r.to;
    for (; count > 0; --count, m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += r.channel) {
        const float even = TL_EVEN(0), odd = TL_ODD(0), bias = at ? *at++ : 0.0f;
        tl_output_put(&r, to, &even, bias, 1);
        if (wide)
            tl_output_put(&r, to + 1, &odd, bias, 1);
    }
}

void tl_winograd_outputs_apart(const tl_winograd *t, tl_tile_at tile, int left, int channel, tl_output_run *r,
                               int count)
{
    for (int j = 0, done; j < 4 && j < left; j += done, r->m += done) {
        const int whole = tl_tiles_beside(t, &tile);
        tl_output_locate(t, &tile, channel, r);
        done = j < 3 && whole >= 2 ? 2 : 1;
        if (done == 2)
            two(r, count);
        else
            one(r, whole > 0, count);
        tile.x += done - 1;
        tl_next_tile(&tile, t->high, t->wide);
    }
}
