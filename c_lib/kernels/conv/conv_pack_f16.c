/* Weights of halves, packed by the team in pairs of neighbouring channels. */
#define TL_HALVES
#include "tl_gather.h"

/* The terms of a class: runs of taps, rows of them, pairs of channels. */
typedef struct {
    int run, rows, step, down; /* taps of a row, rows; elements to the next tap, to the next row */
    int at, x, y, channel;     /* the term that is next: its element, its place */
} terms;

static terms terms_from(const tl_gather *g, int k)
{
    terms t = {.run = g->x.taps, .rows = g->y.taps, .step = g->x.tap_step, .down = g->y.tap_step * g->kw};
    const int pair = k / (t.run * t.rows), tap = k - pair * t.run * t.rows;
    t.channel = 2 * pair, t.y = tap / t.run, t.x = tap - t.y * t.run;
    t.at = g->y.tap0 * g->kw + g->x.tap0 + t.channel * g->w_chan + t.y * t.down + t.x * t.step;
    return t;
}

static inline void advance(const tl_gather *g, terms *t)
{
    t->at += t->step;
    if (++t->x == t->run) {
        t->x = 0, t->at += t->down - t->run * t->step;
        if (++t->y == t->rows)
            t->y = 0, t->channel += 2, t->at += 2 * g->w_chan - t->rows * t->down;
    }
}

/* dst[kc][4] = the weights of pairs k .. k + kc - 1 for channels row .. row + 3; of missing ones, anything. */
static inline __attribute__((always_inline)) void pack_tile(const tl_gather *g, const void *w, int floats, int row,
                                                            int k, int kc, tl_pair *dst)
{
    const int size = floats ? sizeof(float) : sizeof(tl_half);
    const int rows = tl_min(4, g->rows - row), s = g->w_row * size, other = g->w_chan * size;
    const char *w0 = (const char *)w + row * s, *w1 = rows > 1 ? w0 + s : w0, *w2 = rows > 2 ? w1 + s : w1;
    const char *w3 = rows > 3 ? w2 + s : w2;
    terms t = terms_from(g, k);
    for (; kc > 0 && t.channel + 1 < g->chans; --kc, dst += 4, advance(g, &t)) {
        const int a = t.at * size, b = a + other;
        dst[0] = tl_pair_at(w0 + a, w0 + b, floats), dst[1] = tl_pair_at(w1 + a, w1 + b, floats);
        dst[2] = tl_pair_at(w2 + a, w2 + b, floats), dst[3] = tl_pair_at(w3 + a, w3 + b, floats);
    }
    for (; kc > 0; --kc, dst += 4, advance(g, &t)) {
        const int a = t.at * size;
        dst[0] = tl_pair_at(w0 + a, w0 + a, floats) & 0xffff, dst[1] = tl_pair_at(w1 + a, w1 + a, floats) & 0xffff;
        dst[2] = tl_pair_at(w2 + a, w2 + a, floats) & 0xffff, dst[3] = tl_pair_at(w3 + a, w3 + a, floats) & 0xffff;
    }
}

/* Of one tap, or of all taps of one channel: one step leads from each term to the next. */
static void pack_dense(const tl_gather *g, int at, int row, int k, int kc, tl_pair *dst)
{
    const int step = g->by_taps ? 1 : g->w_chan, all = g->by_taps ? g->y.taps * g->x.taps : g->chans;
    const int rows = tl_min(4, g->rows - row), terms = tl_min(2 * kc, all - 2 * k);
    at += g->y.tap0 * g->kw + g->x.tap0 + row * g->w_row + 2 * k * step;
    if (g->w_f32)
        tl_pairs_round(dst, g->w_f32 + at, g->w_row, step, rows, terms);
    else
        tl_pairs_pack(dst, g->w + at, g->w_row, step, rows, terms);
}

/* By quarters of a block. */
void tl_conv_pack_pairs(const tl_gather *g, int group, int row0, int tiles, int k, int kc, tl_pair *dst)
{
    const int quarter = TL_PAIRS / 4, at = group * g->w_group;
    int lo, hi;
    tl_split(tiles * 4, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int from = i % 4 * quarter, count = tl_min(quarter, kc - from), row = row0 + 4 * (i / 4);
        tl_pair *to = dst + i * (TL_PAIRS_PANEL / 4);
        if (count <= 0)
            continue;
        if (g->by_taps || g->y.taps * g->x.taps == 1)
            pack_dense(g, at, row, k + from, count, to);
        else if (g->w_f32)
            pack_tile(g, g->w_f32 + at, 1, row, k + from, count, to);
        else
            pack_tile(g, g->w + at, 0, row, k + from, count, to);
    }
}
