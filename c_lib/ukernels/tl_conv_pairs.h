/* Forward convolution and input gradient of halves; internal to c_lib/kernels. The terms of an output are pairs of
 * neighbouring channels, with each tap one: (pair of channels, ty, tx), in that order, in one chain that goes on from
 * what the output begins with; a last channel without a partner meets zeros. Of a forward convolution of one channel
 * they are neighbouring taps, unless kernel rows have three, which planes take (tl_planes.h). The team packs the
 * weights of up to 32 channels, or 64 where taps are pairs, block by block of the terms; the tiles of these channels x
 * 4 output pixels are shared out as for floats, and each core packs the inputs of its pixels. Scratch of a core: a
 * panel of channels with slack around it, one of pairs, and the table of taps; then the team's weights, then the sums
 * of halves that take several blocks. Where these would not fit, some pixels are done after the others, with the
 * weights packed anew. */
#ifndef TL_CONV_PAIRS_H
#define TL_CONV_PAIRS_H
#include "tl_pixels.h"
#include "tl_tile_pairs.h"

enum { TL_OWN_WORDS = TL_PANEL / 2 + TL_PAIRS_PANEL };

/* Words of a core's own scratch. */
static inline int tl_conv_pairs_own(int kernel_taps)
{
    return TL_OWN_WORDS + tl_min(kernel_taps, TL_KC);
}

/* dst[groups][count][4] = what follows each other as channels: rows 0 .. count - 1 of a group with those behind
 * them. */
static inline void tl_channels_paired(const tl_pair *from, int groups, int count, tl_pair *dst)
{
    for (; groups > 0; --groups, from += 2 * count)
        for (int i = 0; i < count; ++i, from += 2, dst += 4) {
            const tl_pair a = from[0], b = from[1], c = from[2 * count], d = from[2 * count + 1];
            dst[0] = (a & 0xffffu) | c << 16, dst[1] = a >> 16 | (c & 0xffff0000u);
            dst[2] = (b & 0xffffu) | d << 16, dst[3] = b >> 16 | (d & 0xffff0000u);
        }
}

/* The inputs of pairs k .. k + kc - 1, which are all taps of some channels, or some taps of two. */
static inline void tl_conv_pairs_gather(const tl_gather *g, tl_pixels *px, const tl_half *in, int k, int kc,
                                        tl_pair *dst)
{
    const int taps = g->y.taps * g->x.taps, pair = k / taps, tap = k - pair * taps, count = tl_min(kc, taps);
    const int groups = kc / count, channels = tl_min(2 * groups, g->chans - 2 * pair);
    tl_half *const pack = px->pack;
    tl_pixels_table(g, px);
    if (g->by_taps) {
        const int terms = tl_min(2 * kc, taps - 2 * k);
        px->pack = (tl_half *)dst;
        tl_pixels_gather(g, px, in, 2 * k, terms);
        px->pack = pack;
        tl_pairs_of_terms((tl_half *)dst, terms);
        return;
    }
    if (taps == 1 && px->full && px->side_by_side) {
        tl_pairs_pack(dst, in + px->at[0] + 2 * k * g->in_p.c, 1, g->in_p.c, 4, channels);
        return;
    }
    if (count == taps) {
        tl_pixels_gather(g, px, in, 2 * pair * taps, channels * taps);
    } else {
        tl_pixels_gather(g, px, in, 2 * pair * taps + tap, count);
        if (px->pack += 4 * count, channels == 2)
            tl_pixels_gather(g, px, in, (2 * pair + 1) * taps + tap, count);
        px->pack = pack;
    }
    for (int i = 4 * count * channels; i < 8 * count * groups; ++i)
        pack[i] = 0;
    tl_channels_paired((const tl_pair *)pack, groups, count, dst);
}

/* This core's share of `tiles` channel tiles from row0 on, of `panels` of four pixels from panel0 on, and one block of
 * terms; `sums`: NULL where it is all. */
static inline void tl_conv_pairs_share(const tl_gather *g, int group, int row0, int tiles, int panel0, int panels,
                                       int k, int kc, tl_pair *own, const tl_pair *weights, float *sums, int last)
{
    const int total = g->n * g->y.count * g->x.count;
    tl_pair *const pairs = own + TL_PANEL / 2;
    float tile[16];
    int lo, hi;
    tl_pixels px;
    px.pack = (tl_half *)own, px.table = (int *)(own + TL_OWN_WORDS), px.full = 0;
    px.out.tile = tile;
    px.out.c = g->out + group * g->rows * g->out_p.c, px.out.c_m = g->out_p.c;
    px.out.half = g->out_f16 ? g->out_f16 + group * g->rows * g->out_p.c : NULL, px.out.last = last;
    px.out.init = g->bias ? g->bias + group * g->rows : NULL, px.out.i_m = 1;
    px.out.first = k == 0 && !g->accumulate;
    tl_split_among(g->team, panels * tiles, 1, &lo, &hi);
    for (int end; lo < hi; lo += end) {
        const int at = panel0 + lo / tiles, first = lo % tiles;
        end = tl_min(tiles - first, hi - lo);
        px.out.cols = tl_min(4, total - at * 4);
        px.out.sums = sums ? sums + 16 * lo : tile;
        tl_pixels_locate(g, at * 4, &px);
        tl_conv_pairs_gather(g, &px, g->in + group * g->chans * g->in_p.c, k, kc, pairs);
        px.out.row = row0 + 4 * first, px.out.row_end = tl_min(g->rows, row0 + 4 * (first + end));
        tl_tile_pairs(&px.out, weights + first * TL_PAIRS_PANEL, TL_PAIRS_PANEL, pairs, kc);
    }
}

/* One class of outputs. packed_rows: those for floats, which take as many bytes as twice as many for halves; panels: of
 * four pixels, whose sums are put aside at a time, 0: all. */
static inline void tl_conv_pairs(const tl_gather *g, int kernel_taps, int packed_rows, int panels)
{
    const int all_taps = g->y.taps * g->x.taps, taps = g->by_taps ? 1 : all_taps; /* of a pair of channels */
    const int terms = g->by_taps ? (all_taps + 1) / 2 : (g->chans + 1) / 2 * taps,
              words = tl_conv_pairs_own(kernel_taps);
    const int rows = 2 * (packed_rows ? packed_rows : g->by_taps ? 32 : 16);
    const int all = (g->n * g->y.count * g->x.count + 3) / 4;
    tl_pair *own = (tl_pair *)g->scratch + tl_core_id() * words, *weights = (tl_pair *)g->scratch + g->team * words;
    if (all == 0)
        return;
    float *const sums = (float *)(weights + (tl_min(rows, g->rows) + 3) / 4 * TL_PAIRS_PANEL);
    if (terms == 0)
        tl_conv_fill(g);
    panels = panels ? panels : all;
    for (int group = 0; group < g->groups; ++group) {
        for (int row = 0; row < g->rows; row += rows) {
            const int tiles = (tl_min(rows, g->rows - row) + 3) / 4;
            for (int at = 0; at < all; at += panels) {
                for (int k = 0, kc; k < terms; k += kc) {
                    kc = taps <= TL_PAIRS ? TL_PAIRS / taps * taps : tl_min(TL_PAIRS, taps - k % taps);
                    kc = tl_min(kc, terms - k);
                    tl_conv_pack_pairs(g, group, row, tiles, k, kc, weights);
                    tl_barrier();
                    tl_conv_pairs_share(g, group, row, tiles, at, tl_min(panels, all - at), k, kc, own, weights,
                                        kc < terms ? sums : NULL, k + kc == terms);
                    tl_barrier();
                }
            }
        }
    }
}
#endif
