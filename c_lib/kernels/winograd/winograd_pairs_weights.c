/* A row of the transformed 4 x 4 weights of pairs of channels. A kernel that is turned round has its rows and its
 * columns from last to first: sums of the outer ones stay the same. */
#define TL_HALVES
#include "tl_winograd_pairs.h"

/* Kernels of one output channel, which lie as floats or halves. */
typedef struct {
    const char *w;
    int chan;   /* bytes from one summed channel's kernel to the next one's */
    int front;  /* where the first element of a row goes */
    int lone;   /* 1: the last one has no partner */
    float sign; /* of the middle row, where all three are added up */
} kernels;

#define TL_WEIGHT(i) (floats ? ((const float *)w)[i] : tl_from_half(((const tl_half *)w)[i]))

/* The row before its columns are transformed: one of the outer ones, or all three. */
static inline __attribute__((always_inline)) void row_of(const char *w, int floats, int all, float sign, float r[3])
{
    for (int j = 0; j < 3; ++j)
        r[j] = all ? __builtin_fmaf(sign, TL_WEIGHT(3 + j), TL_WEIGHT(j) + TL_WEIGHT(6 + j)) : TL_WEIGHT(j);
}

static inline __attribute__((always_inline)) void transform(const kernels *k, int floats, int all, tl_pair *u,
                                                            int count)
{
    const char *w = k->w;
    const int chan = k->chan;
    const float sign = k->sign;
    tl_pair *front = u + k->front, *back = u + 12 - k->front;
    for (; count > 0; --count, w += 2 * chan, u += TL_WINOGRAD_PAIR) {
        float a[3], b[3] = {0.0f, 0.0f, 0.0f};
        row_of(w, floats, all, sign, a);
        if (count > 1 || !k->lone)
            row_of(w + chan, floats, all, sign, b);
        const float sum_a = a[0] + a[2], sum_b = b[0] + b[2];
        *front = tl_pair_rounded(a[0], b[0]), *back = tl_pair_rounded(a[2], b[2]);
        u[4] = tl_pair_rounded(sum_a + a[1], sum_b + b[1]), u[8] = tl_pair_rounded(sum_a - a[1], sum_b - b[1]);
        front += TL_WINOGRAD_PAIR, back += TL_WINOGRAD_PAIR;
    }
}

#define TL_TRANSFORM(name, floats, all)                                                                                \
    static __attribute__((noinline)) void name(const kernels *k, tl_pair *u, int count)                                \
    {                                                                                                                  \
        transform(k, floats, all, u, count);                                                                           \
    }
TL_TRANSFORM(outer_of_floats, 1, 0)
TL_TRANSFORM(all_of_floats, 1, 1)
TL_TRANSFORM(outer_of_halves, 0, 0)
TL_TRANSFORM(all_of_halves, 0, 1)

void tl_winograd_pairs_weights(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs *t = of;
    const tl_gather *g = t->g;
    const int chan = t->chan + 2 * first, middle = t->row == 1 || t->row == 2;
    const int from = t->group * g->w_group + (t->channel + tl_min(at, t->rows - 1)) * g->w_row + chan * g->w_chan;
    tl_pair *u = t->u + ((at >> 2) * t->pairs + first) * TL_WINOGRAD_PAIR + (at & 3);
    const int outer = middle || (t->row == 3) == t->turned ? 0 : 6; /* the kernel's last row */
    kernels k = {.front = t->turned ? 12 : 0, .lone = chan + 2 * count > g->chans, .sign = t->row == 1 ? 1.0f : -1.0f};
    if (g->w_f32) {
        k.w = (const char *)(g->w_f32 + from + outer), k.chan = g->w_chan * (int)sizeof(float);
        middle ? all_of_floats(&k, u, count) : outer_of_floats(&k, u, count);
    } else {
        k.w = (const char *)(g->w + from + outer), k.chan = g->w_chan * (int)sizeof(tl_half);
        middle ? all_of_halves(&k, u, count) : outer_of_halves(&k, u, count);
    }
}
