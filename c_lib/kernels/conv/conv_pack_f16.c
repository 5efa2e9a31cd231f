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
static void pack_tile(const tl_gather *g, const tl_half *w, int row, int k, int kc, tl_pair *dst)
{
    const int rows = tl_min(4, g->rows - row), s = g->w_row, other = g->w_chan;
    const tl_half *w0 = w + row * s, *w1 = rows > 1 ? w0 + s : w0, *w2 = rows > 2 ? w1 + s : w1;
    const tl_half *w3 = rows > 3 ? w2 + s : w2;
    terms t = terms_from(g, k);
    if (t.run * t.rows == 1) { /* one step leads from each to the next */
        tl_pairs_pack(dst, w0 + t.at, s, other, rows, tl_min(2 * kc, g->chans - t.channel));
        return;
    }
    for (; kc > 0 && t.channel + 1 < g->chans; --kc, dst += 4, advance(g, &t)) {
        const int a = t.at, b = a + other;
        dst[0] = tl_pair_of(w0[a], w0[b]), dst[1] = tl_pair_of(w1[a], w1[b]);
        dst[2] = tl_pair_of(w2[a], w2[b]), dst[3] = tl_pair_of(w3[a], w3[b]);
    }
    for (; kc > 0; --kc, dst += 4, advance(g, &t))
        dst[0] = w0[t.at], dst[1] = w1[t.at], dst[2] = w2[t.at], dst[3] = w3[t.at];
}

/* By quarters of a block. */
void tl_conv_pack_pairs(const tl_gather *g, const tl_half *w, int row0, int tiles, int k, int kc, tl_pair *dst)
{
    const int quarter = TL_PAIRS / 4;
    int lo, hi;
    tl_split(tiles * 4, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int from = i % 4 * quarter, count = tl_min(quarter, kc - from);
        if (count > 0)
            pack_tile(g, w, row0 + 4 * (i / 4), k + from, count, dst + i * (TL_PAIRS_PANEL / 4));
    }
}
