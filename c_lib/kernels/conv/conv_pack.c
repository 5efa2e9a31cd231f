/* Weights of an input gradient, packed by the team. */
#include "tl_gather.h"

/* dst[kc][4] = the weights of terms k .. k + kc - 1 for channels row .. row + 3; missing ones repeat the last. */
static void pack_tile(const tl_gather *g, const float *w, int row, int k, int kc, float *dst)
{
    const int taps = g->y.taps * g->x.taps, c = k / taps, step = g->x.tap_step;
    const float *w0 = w + row * g->w_row, *w1 = row + 1 < g->rows ? w0 + g->w_row : w0;
    const float *w2 = row + 2 < g->rows ? w1 + g->w_row : w1, *w3 = row + 3 < g->rows ? w2 + g->w_row : w2;
    int ty = (k - c * taps) / g->x.taps, tx = (k - c * taps) % g->x.taps;
    for (int chan = c * g->w_chan; kc > 0; tx = 0) {
        const int run = tl_min(g->x.taps - tx, kc);
        int at = chan + (g->y.tap0 + ty * g->y.tap_step) * g->kw + g->x.tap0 + tx * step;
        for (int i = 0; i < run; ++i, dst += 4, at += step)
            dst[0] = w0[at], dst[1] = w1[at], dst[2] = w2[at], dst[3] = w3[at];
        kc -= run;
        if (++ty == g->y.taps)
            ty = 0, chan += g->w_chan;
    }
}

/* This core's share of dst[tile][kc][4], by quarters of a block. */
void tl_conv_pack(const tl_gather *g, const float *w, int row0, int tiles, int k, int kc, float *dst)
{
    int lo, hi;
    tl_split(tiles * 4, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int tile = i / 4, from = i % 4 * (TL_KC / 4), count = tl_min(TL_KC / 4, kc - from);
        if (count > 0)
            pack_tile(g, w, row0 + 4 * tile, k + from, count, dst + tile * TL_PANEL + from * 4);
    }
}
