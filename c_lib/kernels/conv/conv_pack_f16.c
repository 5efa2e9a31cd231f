/* Weights of halves, packed by the team in pairs of terms. */
#define TL_HALVES
#include "tl_gather.h"

/* The terms of a class: runs of taps, rows of them, channels. */
typedef struct {
    int run, rows, step, down; /* taps of a row, rows; elements to the next tap, to the next row */
    int at, x, y;              /* the term that is next: its element, its place */
} terms;

static terms terms_from(const tl_gather *g, int k)
{
    terms t = {.run = g->x.taps, .rows = g->y.taps, .step = g->x.tap_step, .down = g->y.tap_step * g->kw};
    if (t.step == 1 && t.down == t.run) /* all taps in one run */
        t.run *= t.rows, t.rows = 1;
    const int c = k / (t.run * t.rows), tap = k - c * t.run * t.rows;
    t.y = tap / t.run, t.x = tap - t.y * t.run;
    t.at = g->y.tap0 * g->kw + g->x.tap0 + c * g->w_chan + t.y * t.down + t.x * t.step;
    return t;
}

/* The element of the next term. */
static inline int next(const tl_gather *g, terms *t)
{
    const int at = t->at;
    t->at += t->step;
    if (++t->x == t->run) {
        t->x = 0, t->at += t->down - t->run * t->step;
        if (++t->y == t->rows)
            t->y = 0, t->at += g->w_chan - t->rows * t->down;
    }
    return at;
}

/* dst[kc / 2][4] = the weights of terms k .. k + kc - 1 for channels row .. row + 3; of missing ones, anything. */
static void pack_tile(const tl_gather *g, const tl_half *w, int row, int k, int kc, tl_pair *dst)
{
    const int rows = tl_min(4, g->rows - row), s = g->w_row;
    terms t = terms_from(g, k);
    const tl_half *w0 = w + row * s, *w1 = rows > 1 ? w0 + s : w0, *w2 = rows > 2 ? w1 + s : w1;
    const tl_half *w3 = rows > 3 ? w2 + s : w2;
    if (t.rows == 1 && (t.run == 1 || t.run * t.step == g->w_chan)) { /* one step leads from each to the next */
        tl_pairs_pack(dst, w0 + t.at, s, t.run == 1 ? g->w_chan : t.step, rows, kc);
        return;
    }
    for (; kc >= 2; kc -= 2, dst += 4) {
        const int a = next(g, &t), b = next(g, &t);
        dst[0] = tl_pair_of(w0[a], w0[b]), dst[1] = tl_pair_of(w1[a], w1[b]);
        dst[2] = tl_pair_of(w2[a], w2[b]), dst[3] = tl_pair_of(w3[a], w3[b]);
    }
    if (kc > 0)
        dst[0] = w0[t.at], dst[1] = w1[t.at], dst[2] = w2[t.at], dst[3] = w3[t.at];
}

/* By quarters of a block. */
void tl_conv_pack_f16(const tl_gather *g, const tl_half *w, int row0, int tiles, int k, int kc, tl_half *dst)
{
    const int quarter = TL_KC / 4;
    int lo, hi;
    tl_split(tiles * 4, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int from = i % 4 * quarter, count = tl_min(quarter, kc - from);
        if (count > 0)
            pack_tile(g, w, row0 + 4 * (i / 4), k + from, count, (tl_pair *)dst + i * (TL_PAIRS_PANEL / 4));
    }
}
