/* Forward convolution and input gradient; internal to c_lib/kernels. The work is cut into tiles of 4 output channels x
 * 4 output pixels, numbered with the channels fastest; each core takes a contiguous range and packs, for 64 terms at a
 * time, the inputs of its 4 pixels. How the inputs and the weights are read are literals after inlining: a kernel for
 * each. Scratch of a core: a panel with slack around it, and the table of taps. */
#ifndef TL_CONV_SHARE_H
#define TL_CONV_SHARE_H
#include "tl_near.h"
#include "tl_promise.h"

#define TL_SHARE static inline __attribute__((always_inline))

/* Inputs: by the table of taps; 3 x 3 neighbours, and every other column; one tap, where it lies if the pixels are
 * neighbours. Classes of the input gradient of a stride have any number of taps, one among them. */
enum { TL_TAPS, TL_NEAR, TL_NEAR_S2, TL_CLASSES };

/* Weights of a row contiguous over all terms; over the taps of one channel; rows side by side; packed by the team. */
enum { TL_DENSE, TL_APART, TL_COLUMNS, TL_SHARED };

/* 1 x 1 kernels over neighbouring pixels read the input where it lies. */
static inline int tl_in_place(const tl_gather *g, const tl_pixels *px)
{
    return g->y.taps * g->x.taps == 1 && px->full && px->side_by_side;
}

/* Rows first .. end - 1 over one block, tile by tile: channels do not follow each other. */
static inline void tl_multiply_apart(const tl_gather *g, const float *w, int first, int end, const float *b, int b_k,
                                     int k, int kc, tl_panel_out *out)
{
    const int taps = g->y.taps * g->x.taps;
    for (out->row = first; out->row < end; out->row += 4) {
        out->row_end = tl_min(end, out->row + 4);
        out->resume = 0;
        for (int done = 0, run; done < kc; done += run) {
            const int c = (k + done) / taps, tap = (k + done) % taps;
            run = tl_min(taps - tap, kc - done);
            out->pause = done + run < kc;
            tl_tile_rows(out, w + out->row * g->w_row + c * g->w_chan + tap, g->w_row, b + done * b_k, b_k, run);
            out->resume = 1;
        }
    }
}

/* Output channel tiles first .. last - 1 (relative to channel row0) of one panel, terms k0 .. k1 - 1. `shared`:
 * [tile][TL_KC][4] of those terms and channels. */
TL_SHARE void tl_conv_panel(const tl_gather *g, int group, tl_pixels *px, int row0, int first, int last, int k0, int k1,
                            const float *shared, int inputs, int weights)
{
    const float *in = g->in + group * g->chans * g->in_p.c, *w = g->w + group * g->w_group;
    const int near =
        (inputs == TL_NEAR && tl_pixels_near(g, px, 1)) || (inputs == TL_NEAR_S2 && tl_pixels_near(g, px, 2));
    if (!near)
        tl_pixels_table(g, px);
    const int direct = inputs == TL_CLASSES && tl_in_place(g, px), b_k = direct ? g->in_p.c : 4;
    int k = k0;
    do {
        const int kc = tl_min(TL_KC, k1 - k), row = row0 + 4 * first, end = tl_min(g->rows, row0 + 4 * last);
        const float *b = direct ? in + px->at[0] + k * b_k : px->pack;
        if (near && inputs == TL_NEAR)
            tl_pixels_gather_near(g, px, in, k, kc);
        else if (near)
            tl_pixels_gather_near_s2(g, px, in, k, kc);
        else if (!direct && kc > 0)
            tl_pixels_gather(g, px, in, k, kc);
        px->out.first = k == 0 && !g->accumulate;
        px->out.row = row, px->out.row_end = end;
        if (weights == TL_SHARED)
            tl_tile_panel(&px->out, shared + first * TL_PANEL, TL_PANEL, 4, b, b_k, kc);
        else if (weights == TL_COLUMNS)
            tl_tile_panel(&px->out, w + k * g->w_chan + row, 4, g->w_chan, b, b_k, kc);
        else if (weights == TL_DENSE)
            tl_tile_rows(&px->out, w + row * g->w_row + k, g->w_row, b, b_k, kc);
        else
            tl_multiply_apart(g, w, row, end, b, b_k, k, kc, &px->out);
        k += TL_KC;
    } while (k < k1);
}

/* Floats of a core's own scratch. */
static inline int tl_conv_own(int kernel_taps)
{
    return TL_SLACK + TL_PANEL + TL_SLACK + tl_min(kernel_taps, TL_KC);
}

/* This core's share of the tiles of groups group .. group + groups - 1 and `tiles` channel tiles from row0 on. */
TL_SHARE void tl_conv_share(const tl_gather *g, int group, int groups, int row0, int tiles, int k0, int k1, float *own,
                            const float *shared, int inputs, int weights)
{
    const int total = g->n * g->y.count * g->x.count, panels = (total + 3) / 4;
    int lo, hi;
    tl_pixels px;
    px.pack = own + TL_SLACK, px.table = (int *)(own + TL_SLACK + TL_PANEL + TL_SLACK), px.full = 0;
    px.out.tile = own; /* the slack before the panel is free while tiles are computed */
    px.out.resume = px.out.pause = 0;
    tl_split_among(g->team, groups * panels * tiles, 1, &lo, &hi);
    const int begin = lo / tiles, skipped = begin / panels;
    int of = group + skipped, panel = begin - skipped * panels;
    for (int first = lo - begin * tiles, last; lo < hi; lo += last - first, first = 0) {
        last = tl_min(tiles, first + hi - lo);
        px.out.cols = tl_min(4, total - 4 * panel);
        px.out.c = g->out + of * g->rows * g->out_p.c;
        px.out.c_m = g->out_p.c;
        px.out.init = g->bias ? g->bias + of * g->rows : NULL;
        px.out.i_m = 1;
        tl_pixels_locate(g, 4 * panel, &px);
        tl_conv_panel(g, of, &px, row0, first, last, k0, k1, shared, inputs, weights);
        if (++panel == panels)
            panel = 0, ++of;
    }
}

/* All groups, rows and terms of a forward convolution. */
TL_SHARE void tl_conv_fw(const tl_conv2d *a, int inputs, int weights)
{
    const tl_gather g = tl_gather_fw(a);
    const int taps = a->kh * a->kw;
    TL_PROMISE(weights == TL_APART || a->w_ci == taps);
    TL_PROMISE(inputs == TL_TAPS || inputs == TL_CLASSES || (a->kh == 3 && a->kw == 3 && a->dil_w == 1));
    TL_PROMISE((inputs != TL_NEAR || a->stride_w == 1) && (inputs != TL_NEAR_S2 || a->stride_w == 2));
    tl_conv_share(&g, 0, g.groups, 0, (g.rows + 3) / 4, 0, g.chans * taps,
                  (float *)a->scratch + tl_core_id() * tl_conv_own(taps), NULL, inputs, weights);
}
#endif
