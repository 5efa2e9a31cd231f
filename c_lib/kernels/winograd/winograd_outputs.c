/* What a row of the products adds to the outputs. The first row is where upper outputs begin; the second and the third,
 * by halves, are added to upper outputs, and lower ones begin with the second. */
#include "tl_winograd.h"

/* Channel after channel of tiles side by side. */
typedef struct {
    const float *m;
    int element; /* from one element's sums to the next one's */
    float *to;
    int channel; /* step of the outputs */
    const float *bias;
    int half;     /* add halves to the upper outputs; then, `other` elements further on: */
    float factor; /* add so many times the sums; 0: nothing */
    int other;
    int begins; /* to the bias instead of what is there */
} run;

#define TL_EVEN(j) __builtin_fmaf(0.5f, m1[j] + m2[j], m0[j])
#define TL_ODD(j) __builtin_fmaf(0.5f, m1[j] - m2[j], -m3[j])

/* `width` outputs of a row, a literal. */
static inline __attribute__((always_inline)) void put(const run *r, float *to, const float *share, float bias,
                                                      int width)
{
    if (r->half)
        for (int i = 0; i < width; ++i)
            to[i] = __builtin_fmaf(0.5f, share[i], to[i]);
    to += r->other;
    if (r->begins) {
        for (int i = 0; i < width; ++i)
            to[i] = __builtin_fmaf(r->factor, share[i], bias);
    } else if (r->factor != 0.0f) {
        for (int i = 0; i < width; ++i)
            to[i] = __builtin_fmaf(r->factor, share[i], to[i]);
    }
}

/* Four tiles, all inside. */
static __attribute__((noinline)) void four(const run *of, int count)
{
    const run r = *of; /* outputs are floats, too: its own would be read again after each */
    const float *m0 = r.m, *m1 = m0 + r.element, *m2 = m1 + r.element, *m3 = m2 + r.element, *at = r.bias;
    float *to = r.to;
    for (; count > 0; --count, m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += r.channel) {
        const float share[8] = {TL_EVEN(0), TL_ODD(0), TL_EVEN(1), TL_ODD(1),
                                TL_EVEN(2), TL_ODD(2), TL_EVEN(3), TL_ODD(3)};
        put(&r, to, share, at ? *at++ : 0.0f, 8);
    }
}

/* Two. */
static __attribute__((noinline)) void two(const run *of, int count)
{
    const run r = *of;
    const float *m0 = r.m, *m1 = m0 + r.element, *m2 = m1 + r.element, *m3 = m2 + r.element, *at = r.bias;
    float *to = r.to;
    for (; count > 0; --count, m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += r.channel) {
        const float share[4] = {TL_EVEN(0), TL_ODD(0), TL_EVEN(1), TL_ODD(1)};
        put(&r, to, share, at ? *at++ : 0.0f, 4);
    }
}

/* One tile, perhaps without its second column. */
static __attribute__((noinline)) void one(const run *of, int wide, int count)
{
    const run r = *of;
    const float *m0 = r.m, *m1 = m0 + r.element, *m2 = m1 + r.element, *m3 = m2 + r.element, *at = r.bias;
    float *to = r.to;
    for (; count > 0; --count, m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += r.channel) {
        const float even = TL_EVEN(0), odd = TL_ODD(0), bias = at ? *at++ : 0.0f;
        put(&r, to, &even, bias, 1);
        if (wide)
            put(&r, to + 1, &odd, bias, 1);
    }
}

/* How many whole tiles are side by side from this one on. */
static inline int beside(const tl_winograd *t, const tl_tile_at *tile)
{
    return t->g->x.count / 2 - tile->x;
}

/* Where a tile's outputs go. */
static inline void locate(const tl_winograd *t, const tl_tile_at *tile, int channel, run *r)
{
    const tl_gather *g = t->g;
    const int row = t->row, there = row == 0 || 2 * tile->y + 1 < g->y.count;
    const float factor = row == 0 ? 1.0f : row == 1 ? 0.5f : row == 2 ? -0.5f : -1.0f;
    r->to = g->out + channel * g->out_p.c + tile->n * g->out_p.n + 2 * tile->y * g->out_p.h + 2 * tile->x;
    r->factor = there ? factor : 0.0f, r->begins = there && row < 2 && !g->accumulate;
}

/* Tiles from `tile` on, which are in several rows or not whole: two at a time where they can. */
static __attribute__((noinline)) void apart(const tl_winograd *t, tl_tile_at tile, int left, int channel, run *r,
                                            int count)
{
    for (int j = 0, done; j < 4 && j < left; j += done, r->m += done) {
        const int whole = beside(t, &tile);
        locate(t, &tile, channel, r);
        done = j < 3 && whole >= 2 ? 2 : 1;
        if (done == 2)
            two(r, count);
        else
            one(r, whole > 0, count);
        tile.x += done - 1;
        tl_next_tile(&tile, t->high, t->wide);
    }
}

void tl_winograd_outputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int filled = (t->rows + 3) & ~3, channel = t->group * g->rows + t->channel + first, row = t->row;
    const int number = 4 * (t->panel + at);
    const tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    run r = {.m = t->m + (at * filled + first) * 4,
             .element = t->panels * filled * 4,
             .channel = g->out_p.c,
             .bias = g->bias ? g->bias + channel : NULL,
             .half = row == 1 || row == 2,
             .other = row ? g->out_p.h : 0};
    if (beside(t, &tile) >= 4) {
        locate(t, &tile, channel, &r);
        four(&r, count);
    } else {
        apart(t, tile, g->n * t->high * t->wide - number, channel, &r, count);
    }
}
