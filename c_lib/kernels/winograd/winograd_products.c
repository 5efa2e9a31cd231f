/* Products of a row of the transformed 4 x 4: channels x tiles for each of its elements. */
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */
#include "tl_terms.h"

/* clang-format off */
#define TL_ROWS(what) what(0) what(1) what(2) what(3)
/* clang-format on */
#define TL_DECLARE(i) float c##i##0 = 0.0f, c##i##1 = 0.0f, c##i##2 = 0.0f, c##i##3 = 0.0f;
#define TL_SAVE(i) m[4 * i] = c##i##0, m[4 * i + 1] = c##i##1, m[4 * i + 2] = c##i##2, m[4 * i + 3] = c##i##3;

enum { a_k = 16, b_k = 16 };

/* 4 channels x 4 tiles, and the next channels below: one chain over all terms. */
static __attribute__((noinline)) void chains(const float *u, int u_step, const float *v, float *m, int count, int terms)
{
    for (; count > 0; --count, u += u_step, m += 16) {
        const float *a = u, *b = v;
        TL_ROWS(TL_DECLARE)
        float w0 = a[0], w1 = a[1], w2, w3, x0 = b[0], x1, x2, x3;
        int left = terms - 1;
        TL_ADDRESS_HERE(left)
        while (left != 0) {
            TL_TERM_OF_PANEL(1)
        }
        TL_TERM_OF_PANEL(0)
        TL_ROWS(TL_SAVE)
    }
}

/* Sums of several blocks, or of a part of one: its chains are put aside and go on with the next channels. Those of one
 * block stay as they are, as above. */
static __attribute__((noinline)) void blocks(const tl_winograd *t, const float *u, const float *v, int unit)
{
    tl_panel_out out = {.c_m = 4, .cols = 4, .c_n = {0, 1, 2, 3}, .dense = 1, .row_end = 4};
    out.c = t->m + unit * 16, out.tile = t->chain + unit * 16;
    for (int k = 0; k < t->chans; k += TL_KC) {
        const int kc = tl_min(TL_KC, t->chans - k), begin = t->chan + k, end = begin + kc;
        out.first = begin < TL_KC;
        out.resume = begin % TL_KC != 0;
        out.pause = t->g->chans <= TL_KC || (end % TL_KC != 0 && end < t->g->chans);
        tl_tile_panel(&out, u + k * 16, 0, 16, v + k * 16, 16, kc);
    }
}

void tl_winograd_products(const tl_winograd *t, int at, int first, int count)
{
    const int step = t->chans * 16, unit = at * ((t->rows + 3) / 4) + first;
    const int element = at / t->panels, panel = at - element * t->panels;
    const float *u = t->u + first * step + element * 4, *v = t->v + panel * step + element * 4;
    if (t->chans <= TL_KC && t->chans == t->g->chans) {
        chains(u, step, v, t->m + unit * 16, count, t->chans);
        return;
    }
    for (int i = 0; i < count; ++i)
        blocks(t, u + i * step, v, unit + i);
}
