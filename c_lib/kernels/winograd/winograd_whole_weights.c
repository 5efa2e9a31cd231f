/* All 16 elements of the transformed weights of pairs of channels. A kernel that is turned round has its rows and its
 * columns from last to first: sums of the outer ones stay the same. */
#define TL_HALVES
#include "tl_winograd_pairs.h"

/* Kernels of one output channel, which lie as floats or halves. */
typedef struct {
    const char *w;
    int chan; /* bytes from one summed channel's kernel to the next one's */
    int lone; /* 1: the last one has no partner */
} kernels;

/* A row of two kernels, transformed. */
static inline __attribute__((always_inline)) void columns(const float a[3], const float b[3], int turned, tl_pair *u)
{
    const float sum_a = a[0] + a[2], sum_b = b[0] + b[2];
    u[turned ? 12 : 0] = tl_pair_rounded(a[0], b[0]), u[turned ? 0 : 12] = tl_pair_rounded(a[2], b[2]);
    u[4] = tl_pair_rounded(sum_a + a[1], sum_b + b[1]), u[8] = tl_pair_rounded(sum_a - a[1], sum_b - b[1]);
}

static inline __attribute__((always_inline)) void transform(const kernels *k, int floats, int turned, tl_pair *u,
                                                            int count)
{
    const char *w = k->w;
    const int chan = k->chan, lone = k->lone;
    for (; count > 0; --count, w += 2 * chan, u += TL_WINOGRAD_WHOLE) {
        float a[9], b[9], plus_a[3], plus_b[3];
        const int alone = lone && count == 1;
        const char *next = alone ? w : w + chan;
        for (int i = 0; i < 9; ++i) {
            a[i] = floats ? ((const float *)w)[i] : tl_from_half(((const tl_half *)w)[i]);
            b[i] = floats ? ((const float *)next)[i] : tl_from_half(((const tl_half *)next)[i]);
        }
        for (int i = 0; i < 9 && alone; ++i)
            b[i] = 0.0f;
        columns(a, b, turned, u + (turned ? 48 : 0)), columns(a + 6, b + 6, turned, u + (turned ? 0 : 48));
        for (int j = 0; j < 3; ++j) {
            a[j] += a[6 + j], plus_a[j] = a[j] + a[3 + j], a[j] -= a[3 + j];
            b[j] += b[6 + j], plus_b[j] = b[j] + b[3 + j], b[j] -= b[3 + j];
        }
        columns(plus_a, plus_b, turned, u + 16), columns(a, b, turned, u + 32);
    }
}

#define TL_TRANSFORM(name, floats, turned)                                                                             \
    static __attribute__((noinline)) void name(const kernels *k, tl_pair *u, int count)                                \
    {                                                                                                                  \
        transform(k, floats, turned, u, count);                                                                        \
    }
TL_TRANSFORM(of_floats, 1, 0)
TL_TRANSFORM(of_floats_turned, 1, 1)
TL_TRANSFORM(of_halves, 0, 0)
TL_TRANSFORM(of_halves_turned, 0, 1)

void tl_winograd_whole_weights(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs *t = of;
    const tl_gather *g = t->g;
    const int chan = t->chan + 2 * first;
    const int from = t->group * g->w_group + (t->channel + tl_min(at, t->rows - 1)) * g->w_row + chan * g->w_chan;
    tl_pair *u = t->u + ((at >> 2) * t->pairs + first) * TL_WINOGRAD_WHOLE + (at & 3);
    kernels k = {.lone = chan + 2 * count > g->chans};
    if (g->w_f32) {
        k.w = (const char *)(g->w_f32 + from), k.chan = g->w_chan * (int)sizeof(float);
        t->turned ? of_floats_turned(&k, u, count) : of_floats(&k, u, count);
    } else {
        k.w = (const char *)(g->w + from), k.chan = g->w_chan * (int)sizeof(tl_half);
        t->turned ? of_halves_turned(&k, u, count) : of_halves(&k, u, count);
    }
}
