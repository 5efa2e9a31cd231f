/* Forward convolution and input gradient of halves; internal to c_lib/kernels. The team packs the weights of up to 32
 * channels, block by block of the terms; the tiles of these channels x 4 output pixels are shared out as for floats, and
 * each core packs the inputs of its pixels. Scratch of a core: a panel with slack around it, and the table of taps; then
 * the team's weights. */
#ifndef TL_CONV_PAIRS_H
#define TL_CONV_PAIRS_H
#include "tl_pixels.h"
#include "tl_tile_pairs.h"

enum { TL_PAIRS_SLACK = 2 * 9 * 4, TL_OWN_HALVES = TL_PAIRS_SLACK + TL_PANEL + TL_PAIRS_SLACK };

/* The inputs of terms k .. k + kc - 1 of pixels for which tl_pixels_near holds, in pairs. */
void tl_pixels_gather_near_pairs(const tl_gather *g, const tl_pixels *px, const tl_half *in, int k, int kc);

/* Words of a core's own scratch. */
static inline int tl_conv_pairs_own(int kernel_taps)
{
    return TL_OWN_HALVES / 2 + tl_min(kernel_taps, TL_KC);
}

/* Channel tiles first .. end - 1, counted from channel row0, of one panel of pixels and one block of terms. */
static inline void tl_conv_pairs_panel(const tl_gather *g, int group, tl_pixels *px, int row0, int first, int end,
                                       int k, int kc, const tl_half *weights)
{
    const tl_half *in = g->in + group * g->chans * g->in_p.c;
    if (tl_pixels_near(g, px)) {
        tl_pixels_gather_near_pairs(g, px, in, k, kc);
    } else {
        tl_pixels_table(g, px);
        if (g->y.taps * g->x.taps == 1 && px->full && px->side_by_side) {
            tl_pairs_pack((tl_pair *)px->pack, in + px->at[0] + k * g->in_p.c, 1, g->in_p.c, 4, kc);
        } else {
            tl_pixels_gather(g, px, in, k, kc);
            TL_FINISH(px->pack, kc);
        }
    }
    px->out.first = k == 0 && !g->accumulate;
    px->out.row = row0 + 4 * first, px->out.row_end = tl_min(g->rows, row0 + 4 * end);
    tl_tile_pairs(&px->out, (const tl_pair *)weights + first * TL_PAIRS_PANEL, (const tl_pair *)px->pack, (kc + 1) / 2);
}

/* This core's share of `tiles` channel tiles from row0 on and one block of terms. */
static inline void tl_conv_pairs_share(const tl_gather *g, int group, int row0, int tiles, int k, int kc, tl_half *own,
                                       const tl_half *weights)
{
    const int total = g->n * g->y.count * g->x.count, panels = (total + 3) / 4;
    int lo, hi;
    tl_pixels px;
    px.pack = own + TL_PAIRS_SLACK, px.table = (int *)(own + TL_OWN_HALVES), px.full = 0;
    px.out.tile = (float *)own; /* the slack before the panel is free while tiles are computed */
    px.out.c = g->out + group * g->rows * g->out_p.c, px.out.c_m = g->out_p.c;
    px.out.init = g->bias ? g->bias + group * g->rows : NULL, px.out.i_m = 1;
    tl_split_among(g->team, panels * tiles, 1, &lo, &hi);
    for (int end; lo < hi; lo += end) {
        const int at = lo / tiles, first = lo - at * tiles;
        end = tl_min(tiles - first, hi - lo);
        px.out.cols = tl_min(4, total - at * 4);
        tl_pixels_locate(g, at * 4, &px);
        tl_conv_pairs_panel(g, group, &px, row0, first, first + end, k, kc, weights);
    }
}

/* One class of outputs. packed_rows: those for floats, which take as many bytes as twice as many for halves. */
static inline void tl_conv_pairs(const tl_gather *g, int kernel_taps, int packed_rows)
{
    const int terms = g->chans * g->y.taps * g->x.taps, words = tl_conv_pairs_own(kernel_taps);
    const int most = 2 * (packed_rows ? packed_rows : 16);
    tl_half *own = (tl_half *)((tl_pair *)g->scratch + tl_core_id() * words);
    tl_half *weights = (tl_half *)((tl_pair *)g->scratch + g->team * words);
    if (g->n * g->y.count * g->x.count == 0)
        return;
    if (terms == 0)
        tl_conv_fill(g);
    for (int group = 0; group < g->groups; ++group) {
        for (int row = 0; row < g->rows; row += most) {
            const int tiles = (tl_min(most, g->rows - row) + 3) / 4;
            for (int k = 0; k < terms; k += TL_KC) {
                const int kc = tl_min(TL_KC, terms - k);
                tl_conv_pack(g, g->w + group * g->w_group, row, tiles, k, kc, weights);
                tl_barrier();
                tl_conv_pairs_share(g, group, row, tiles, k, kc, own, weights);
                tl_barrier();
            }
        }
    }
}
#endif
