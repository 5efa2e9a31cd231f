/* Outputs from their transformed 4 x 4, A' M A, row by row: of each channel and tile, two rows of two columns. */
#define TL_HALVES
#include "tl_winograd_pairs.h"

/* Columns of A'; the halves stand where they are part of a fused multiply-add. */
#define TL_SHARES                                                                                                      \
    const float a = m[0], b = m[16], c = m[32], d = m[48], sum = b + c, difference = b - c;                            \
    const float even = __builtin_fmaf(0.5f, sum, a), odd = __builtin_fmaf(0.5f, difference, -d);

static void add_first(const float *m, float *y, const float *end)
{
    for (; m < end; ++m, ++y) {
        TL_SHARES
        y[0] = even, y[16] = odd;
    }
}

static void add_second(const float *m, float *y, const float *end)
{
    for (; m < end; ++m, ++y) {
        const float upper = y[0], beside = y[16];
        TL_SHARES
        y[0] = __builtin_fmaf(0.5f, even, upper), y[16] = __builtin_fmaf(0.5f, odd, beside);
        y[32] = 0.5f * even, y[48] = 0.5f * odd;
    }
}

static void add_third(const float *m, float *y, const float *end)
{
    for (; m < end; ++m, ++y) {
        const float upper = y[0], beside = y[16], lower = y[32], last = y[48];
        TL_SHARES
        y[0] = __builtin_fmaf(0.5f, even, upper), y[16] = __builtin_fmaf(0.5f, odd, beside);
        y[32] = __builtin_fmaf(-0.5f, even, lower), y[48] = __builtin_fmaf(-0.5f, odd, last);
    }
}

static void add_fourth(const float *m, float *y, const float *end)
{
    for (; m < end; ++m, ++y) {
        const float lower = y[32], last = y[48];
        TL_SHARES
        y[32] = lower - even, y[48] = last - odd;
    }
}

void tl_winograd_pairs_add(int row, const float *m, float *y)
{
    if (row == 0)
        add_first(m, y, m + 16);
    else if (row == 1)
        add_second(m, y, m + 16);
    else if (row == 2)
        add_third(m, y, m + 16);
    else
        add_fourth(m, y, m + 16);
}

/* Tiles of some channels, of which the second row or column may be outside. */
typedef struct {
    const float *y;    /* of the first channel */
    const float *bias; /* or NULL */
    int below, beside;
    int to_row, to_channel; /* of the outputs */
} run;

#define TL_AT(i, j) (y[16 * (i) + (j)] + start)

/* Four tiles side by side, at even places. */
static __attribute__((noinline)) void four_to_halves(const run *r, tl_half *to, int count)
{
    const float *y = r->y, *bias = r->bias;
    for (; count > 0; --count, y += 4, to += r->to_channel) {
        const float start = bias ? *bias++ : 0.0f;
        tl_pair *upper = (tl_pair *)to, *lower = (tl_pair *)(to + r->to_row);
        for (int j = 0; j < 4; ++j)
            upper[j] = tl_pair_rounded(TL_AT(0, j), TL_AT(1, j));
        if (r->below)
            for (int j = 0; j < 4; ++j)
                lower[j] = tl_pair_rounded(TL_AT(2, j), TL_AT(3, j));
    }
}

static __attribute__((noinline)) void to_halves(const run *r, tl_half *to, int count)
{
    const float *y = r->y, *bias = r->bias;
    for (; count > 0; --count, y += 4, to += r->to_channel) {
        const float start = bias ? *bias++ : 0.0f;
        for (int i = 0; i < 2 + 2 * r->below; ++i)
            if (i % 2 == 0 || r->beside)
                to[i / 2 * r->to_row + i % 2] = tl_to_half(TL_AT(i, 0));
    }
}

static __attribute__((noinline)) void to_floats(const run *r, float *to, int accumulate, int count)
{
    const float *y = r->y, *bias = r->bias;
    for (; count > 0; --count, y += 4, to += r->to_channel) {
        const float start = bias && !accumulate ? *bias++ : 0.0f;
        for (int i = 0; i < 2 + 2 * r->below; ++i) {
            float *at = to + i / 2 * r->to_row + i % 2;
            if (i % 2 == 0 || r->beside)
                *at = accumulate ? *at + y[16 * i] : TL_AT(i, 0);
        }
    }
}

void tl_winograd_pairs_outputs(const tl_winograd_pairs *t, const float *y, int at, int four)
{
    const tl_gather *g = t->g;
    const int number = 4 * (t->panel + at), tiles = g->n * t->high * t->wide, count = tl_min(4, t->rows - 4 * four);
    const int channel = t->group * g->rows + t->channel + 4 * four;
    run r = {.bias = g->bias ? g->bias + channel : NULL, .to_row = g->out_p.h, .to_channel = g->out_p.c};
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    for (int j = 0; j < 4 && number + j < tiles; ++j) {
        TL_ONE_POINTER(j) /* not four copies */
        const int to = channel * g->out_p.c + tile.n * g->out_p.n + 2 * tile.y * g->out_p.h + 2 * tile.x;
        r.y = y + j, r.below = 2 * tile.y + 1 < g->y.count, r.beside = 2 * tile.x + 1 < g->x.count;
        if (!g->out_f16) {
            to_floats(&r, g->out + to, g->accumulate, count);
        } else if (j == 0 && tile.x + 4 <= t->wide && 2 * tile.x + 8 <= g->x.count &&
                   (((uintptr_t)(g->out_f16 + to) >> 1 | (unsigned)g->out_p.h | (unsigned)g->out_p.c) & 1) == 0) {
            four_to_halves(&r, g->out_f16 + to, count);
            return;
        } else {
            to_halves(&r, g->out_f16 + to, count);
        }
        tl_next_tile(&tile, t->high, t->wide);
    }
}
