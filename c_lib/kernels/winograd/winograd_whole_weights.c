/* All 16 elements of the transformed weights of pairs of channels. A kernel that is turned round has its rows and its
 * columns from last to first: sums of the outer ones stay the same. */
#define TL_HALVES
#include "tl_winograd_pairs.h"

/* Kernels of one output channel, which lie as floats or halves. */
typedef struct {
    const char *w;
    int chan;   /* bytes from one summed channel's kernel to the next one's */
    int turned; /* words from where the first column goes to where it would without that; rows are four times as far */
    int lone;   /* 1: the last one has no partner */
} kernels;

/* A row of two kernels, transformed. */
static inline __attribute__((always_inline)) void columns(const float a[3], const float b[3], tl_pair *front,
                                                          tl_pair *u, tl_pair *back)
{
    const float sum_a = a[0] + a[2], sum_b = b[0] + b[2];
    *front = tl_pair_rounded(a[0], b[0]), *back = tl_pair_rounded(a[2], b[2]);
    u[4] = tl_pair_rounded(sum_a + a[1], sum_b + b[1]), u[8] = tl_pair_rounded(sum_a - a[1], sum_b - b[1]);
}

static inline __attribute__((always_inline)) void transform(const kernels *k, int floats, tl_pair *u, int count)
{
    const char *w = k->w;
    const int chan = k->chan, front = k->turned, back = 12 - front;
    for (; count > 0; --count, w += 2 * chan, u += TL_WINOGRAD_WHOLE) {
        float a[9], b[9], plus_a[3], plus_b[3], minus_a[3], minus_b[3];
        const int alone = k->lone && count == 1;
        const char *next = alone ? w : w + chan;
        for (int i = 0; i < 9; ++i) {
            a[i] = floats ? ((const float *)w)[i] : tl_from_half(((const tl_half *)w)[i]);
            b[i] = floats ? ((const float *)next)[i] : tl_from_half(((const tl_half *)next)[i]);
        }
        for (int i = 0; i < 9 && alone; ++i)
            b[i] = 0.0f;
        tl_pair *first = u + 4 * front, *last = u + 4 * back;
        columns(a, b, first + front, first, first + back), columns(a + 6, b + 6, last + front, last, last + back);
        for (int j = 0; j < 3; ++j) {
            const float outer_a = a[j] + a[6 + j], outer_b = b[j] + b[6 + j];
            plus_a[j] = outer_a + a[3 + j], minus_a[j] = outer_a - a[3 + j];
            plus_b[j] = outer_b + b[3 + j], minus_b[j] = outer_b - b[3 + j];
        }
        columns(plus_a, plus_b, u + 16 + front, u + 16, u + 16 + back);
        columns(minus_a, minus_b, u + 32 + front, u + 32, u + 32 + back);
    }
}

static __attribute__((noinline)) void of_floats(const kernels *k, tl_pair *u, int count)
{
    transform(k, 1, u, count);
}

static __attribute__((noinline)) void of_halves(const kernels *k, tl_pair *u, int count)
{
    transform(k, 0, u, count);
}

void tl_winograd_whole_weights(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs *t = of;
    const tl_gather *g = t->g;
    const int from = t->group * g->w_group + (t->channel + tl_min(at, t->rows - 1)) * g->w_row + 2 * first * g->w_chan;
    tl_pair *u = t->u + ((at >> 2) * t->pairs + first) * TL_WINOGRAD_WHOLE + (at & 3);
    kernels k = {.turned = t->turned ? 12 : 0, .lone = 2 * (first + count) > g->chans};
    if (g->w_f32) {
        k.w = (const char *)(g->w_f32 + from), k.chan = g->w_chan * (int)sizeof(float);
        of_floats(&k, u, count);
    } else {
        k.w = (const char *)(g->w + from), k.chan = g->w_chan * (int)sizeof(tl_half);
        of_halves(&k, u, count);
    }
}
