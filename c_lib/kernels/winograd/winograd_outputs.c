/* What a row of the products adds to the outputs. */
#include "tl_winograd.h"

/* A row of outputs: element + factor * share, or bias + factor * share where it begins. */
typedef struct {
    float factor; /* 0: this row of the products has no part in it */
    int begins;
} part;

/* Four tiles of one channel after the other. */
typedef struct {
    const float *m;
    int element; /* from one element's sums to the next one's */
    float *to;
    int channel, row; /* steps of the outputs */
    const float *bias;
} run;

#define TL_EVEN(j) __builtin_fmaf(0.5f, m1[j] + m2[j], m0[j])
#define TL_ODD(j) __builtin_fmaf(0.5f, m1[j] - m2[j], -m3[j])

static inline __attribute__((always_inline)) void put(float *to, const float *share, part how, float bias)
{
    if (how.begins) {
        for (int i = 0; i < 8; ++i)
            to[i] = __builtin_fmaf(how.factor, share[i], bias);
    } else {
        for (int i = 0; i < 8; ++i)
            to[i] = __builtin_fmaf(how.factor, share[i], to[i]);
    }
}

/* Side by side, all inside. */
static __attribute__((noinline)) void four(const run *r, part upper, part lower, int count)
{
    const float *m0 = r->m, *m1 = m0 + r->element, *m2 = m1 + r->element, *m3 = m2 + r->element, *at = r->bias;
    float *to = r->to;
    const int channel = r->channel, row = r->row;
    for (; count > 0; --count) {
        const float bias = at ? *at++ : 0.0f;
        const float share[8] = {TL_EVEN(0), TL_ODD(0), TL_EVEN(1), TL_ODD(1),
                                TL_EVEN(2), TL_ODD(2), TL_EVEN(3), TL_ODD(3)};
        if (upper.factor != 0.0f)
            put(to, share, upper, bias);
        if (lower.factor != 0.0f)
            put(to + row, share, lower, bias);
        m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += channel;
    }
}

static void put_one(float *to, float share, part how, float bias)
{
    *to = __builtin_fmaf(how.factor, share, how.begins ? bias : *to);
}

/* One tile, `high` x `wide` outputs of which are inside. */
static __attribute__((noinline)) void one(const run *r, part upper, part lower, int wide, int count)
{
    const float *m0 = r->m, *m1 = m0 + r->element, *m2 = m1 + r->element, *m3 = m2 + r->element, *at = r->bias;
    float *to = r->to;
    const int channel = r->channel, row = r->row;
    for (; count > 0; --count) {
        const float bias = at ? *at++ : 0.0f, even = TL_EVEN(0), odd = TL_ODD(0);
        if (upper.factor != 0.0f) {
            put_one(to, even, upper, bias);
            if (wide > 1)
                put_one(to + 1, odd, upper, bias);
        }
        if (lower.factor != 0.0f) {
            put_one(to + row, even, lower, bias);
            if (wide > 1)
                put_one(to + row + 1, odd, lower, bias);
        }
        m0 += 4, m1 += 4, m2 += 4, m3 += 4, to += channel;
    }
}

/* Rows of A'. */
static part upper_of(const tl_winograd *t)
{
    return (part){t->row == 0 ? 1.0f : t->row == 3 ? 0.0f : 0.5f, t->row == 0 && !t->g->accumulate};
}

static part lower_of(const tl_winograd *t)
{
    return (part){t->row == 0   ? 0.0f
                  : t->row == 1 ? 0.5f
                  : t->row == 2 ? -0.5f
                                : -1.0f,
                  t->row == 1 && !t->g->accumulate};
}

void tl_winograd_outputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int filled = (t->rows + 3) & ~3, channel = t->group * g->rows + t->channel + first;
    const int tiles = g->n * t->high * t->wide, number = 4 * (t->panel + at);
    const part upper = upper_of(t), within = lower_of(t), none = {0.0f, 0};
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    run r = {t->m + (at * filled + first) * 4, t->panels * filled * 4, NULL, g->out_p.c, g->out_p.h, NULL};
    if (g->bias)
        r.bias = g->bias + channel;
    for (int j = 0; j < 4 && number + j < tiles; ++j, ++r.m) {
        TL_ONE_POINTER(j) /* not four copies */
        const part lower = 2 * tile.y + 1 < g->y.count ? within : none;
        r.to = g->out + channel * g->out_p.c + tile.n * g->out_p.n + 2 * tile.y * g->out_p.h + 2 * tile.x;
        if (j == 0 && tile.x + 4 <= t->wide && 2 * tile.x + 8 <= g->x.count) {
            four(&r, upper, lower, count);
            return;
        }
        one(&r, upper, lower, g->x.count - 2 * tile.x, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}
