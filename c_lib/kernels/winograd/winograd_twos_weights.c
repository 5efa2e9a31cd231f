/* Two rows of the transformed 4 x 4 weights: an outer one, which is a row of the kernel, and an inner one, in which the
 * middle row is added to both others or subtracted. A kernel that is turned round has its rows and its columns from
 * last to first: sums of the outer ones stay the same. */
#include "tl_winograd_twos.h"

/* Kernels of one output channel. */
typedef struct {
    const float *w, *row; /* the kernel, and its row that is the outer one */
    int chan;             /* from one summed channel's kernel to the next one's */
    float sign;
} kernels;

static inline __attribute__((always_inline)) void put(float *u, float a, float b, float c, int turned)
{
    const float sum = a + c;
    u[turned ? 12 : 0] = a, u[4] = sum + b, u[8] = sum - b, u[turned ? 0 : 12] = c;
}

static inline __attribute__((always_inline)) void transform(const kernels *k, float *outer, float *inner, int count,
                                                            int turned)
{
    const float *w = k->w, *r = k->row, sign = k->sign;
    for (; count > 0; --count, w += k->chan, r += k->chan, outer += TL_EIGHT, inner += TL_EIGHT) {
        const float a = __builtin_fmaf(sign, w[3], w[0] + w[6]), b = __builtin_fmaf(sign, w[4], w[1] + w[7]);
        const float c = __builtin_fmaf(sign, w[5], w[2] + w[8]);
        put(outer, r[0], r[1], r[2], turned), put(inner, a, b, c, turned);
    }
}

static __attribute__((noinline)) void straight(const kernels *k, float *outer, float *inner, int count)
{
    transform(k, outer, inner, count, 0);
}

static __attribute__((noinline)) void turned(const kernels *k, float *outer, float *inner, int count)
{
    transform(k, outer, inner, count, 1);
}

void tl_winograd_twos_weights(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int lower = t->row != 0;
    float *u = t->u + ((at >> 2) * t->chans + first) * TL_EIGHT + (at & 3);
    const float *w = g->w + t->group * g->w_group + (t->channel + tl_min(at, t->rows - 1)) * g->w_row;
    kernels k = {.w = w + first * g->w_chan, .chan = g->w_chan, .sign = lower ? -1.0f : 1.0f};
    k.row = k.w + (lower != t->turned ? 6 : 0);
    if (t->turned)
        turned(&k, u + 16 * lower, u + 16 * !lower, count);
    else
        straight(&k, u + 16 * lower, u + 16 * !lower, count);
}
