/* Convolution with one tap and its input gradient over dense planes; internal to c_lib/kernels. Tiles of 4 output
 * channels x 4 neighbouring pixels, channels fastest; each core takes a contiguous range. Inputs and weights are read
 * where they lie. The last four pixels of a plane are a panel of their own, of which those are stored that no other
 * panel has; the last channels, fewer than four, have weights with zeros in scratch. */
#ifndef TL_CONV_PLANE_H
#define TL_CONV_PLANE_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"
#include "tl_promise.h"
#include "tl_tile_xpulp.h"

#define TL_PLANE static inline __attribute__((always_inline))

/* One of both directions. */
typedef struct {
    const float *in, *w; /* of one panel: from its first pixel and its first channel on */
    const float *bias;   /* of its channels, or NULL */
    float *out;
    int in_c, out_c, w_step; /* from channel to channel; of w along summed channels (turned) or along outputs */
    int chans, accumulate;
} tl_plane_panel;

/* So many tiles, one below the other, over one block of terms. end: TL_SET, TL_ADD, or TL_PAUSE, one tile into `to`.
 * What is added to lies in `base`. turned, a literal: weights of four outputs lie side by side. */
TL_PLANE void tl_plane_tiles(const tl_plane_panel *p, int done, int end, const float *base, float *to, int count,
                             int turned)
{
    const int terms = tl_min(TL_KC, p->chans - done);
    const float *b = p->in + done * p->in_c, *w = p->w + (turned ? done * p->w_step : done);
#ifdef TL_XPULP_TILES
    const int bytes = end == TL_PAUSE ? 16 : 4 * p->out_c;
    tl_tile_way way = {.to = to, .bytes = bytes, .end = end, .terms = terms};
    tl_onto(&way, base, base == to ? bytes : 4, base == to ? 4 : 0);
    if (turned)
        tl_xpulp_panel(&way, w, 4, p->w_step, b, p->in_c, count);
    else
        tl_xpulp_rows(&way, w, p->w_step, b, p->in_c, count);
#else
    float tile[16];
    tl_panel_out out = {.c = to, .c_m = p->out_c, .cols = 4, .c_n = {0, 1, 2, 3}, .dense = 1};
    out.row_end = 4 * count, out.first = end == TL_SET || base != to, out.pause = end == TL_PAUSE;
    out.tile = out.pause ? to : tile;
    if (base != to)
        out.init = base, out.i_m = 1;
    if (turned)
        tl_tile_panel(&out, w, 4, p->w_step, b, p->in_c, terms);
    else
        tl_tile_rows(&out, w, p->w_step, b, p->in_c, terms);
#endif
}

/* All terms of tiles that are stored whole. */
TL_PLANE void tl_plane_whole(const tl_plane_panel *p, int count, int turned)
{
    const float *base = p->bias && !p->accumulate ? p->bias : p->out;
    for (int done = 0, end = p->accumulate || p->bias ? TL_ADD : TL_SET; done < p->chans; done += TL_KC, end = TL_ADD) {
        tl_plane_tiles(p, done, end, base, p->out, count, turned);
        base = p->out;
    }
}

/* Of each tile the pixels from `skip` on, and so many channels. */
static __attribute__((noinline)) void tl_plane_edge(const tl_plane_panel *panel, int count, int channels, int skip,
                                                    int turned)
{
    float tile[17];
    tl_plane_panel p = *panel;
    tile[16] = 0.0f;
    for (; count > 0; --count, p.out += 4 * p.out_c, p.w += turned ? 4 : 4 * p.w_step, p.bias += p.bias ? 4 : 0)
        for (int done = 0; done < p.chans; done += TL_KC) {
            const int add = done > 0 || p.accumulate, down = add ? p.out_c : p.bias != NULL;
            const float *from = add ? p.out : p.bias ? p.bias : tile + 16, *sum = tile;
            float *to = p.out;
            tl_plane_tiles(&p, done, TL_PAUSE, tile, tile, 1, turned);
            for (int i = channels; i > 0; --i, from += down, to += p.out_c, sum += 4)
                for (int j = skip; j < 4; ++j)
                    to[j] = from[add ? j : 0] + sum[j];
        }
}

/* The weights of the last channels, fewer than four, into scratch, with zeros for those that are missing. */
static __attribute__((noinline)) void tl_plane_last(const tl_conv2d *a, int rows, int chans, int turned)
{
    const int whole = rows & ~3;
    const float *w = a->w + (turned ? whole : whole * a->w_co);
    int lo, hi;
    tl_split(4 * chans, 1, &lo, &hi);
    for (float *to = (float *)a->scratch + lo; lo < hi; ++lo) {
        const int term = turned ? lo >> 2 : lo % chans, row = turned ? lo & 3 : lo / chans;
        *to++ = row >= rows - whole ? 0.0f : turned ? w[term * a->w_co + row] : w[row * a->w_co + term];
    }
    tl_barrier();
}

/* All groups, rows and terms. ragged, a literal: there may be a tile of fewer than four channels. */
TL_PLANE void tl_conv_plane(const tl_conv2d *a, int turned, int ragged)
{
    const tl_pitch in_p = turned ? a->yp : a->xp, out_p = turned ? a->xp : a->yp;
    const int rows = turned ? a->ci : a->co, tiles = (rows + 3) >> 2, over = ragged ? rows & 3 : 0;
    const int pixels = a->h * a->wd, panels = (pixels + 3) >> 2;
    tl_plane_panel p = {.in_c = in_p.c, .out_c = out_p.c, .accumulate = a->accumulate};
    p.chans = turned ? a->co : a->ci;
    int lo, hi;
    TL_PROMISE(a->kh * a->kw == 1 && a->w_ci == 1 && rows > 0 && p.chans > 0);
    TL_PROMISE(ragged ? a->groups == 1 : rows % 4 == 0);
    TL_PROMISE((a->h == 1 || (a->xp.h == a->wd && a->yp.h == a->wd)) && a->h == a->ho && a->wd == a->wo);
    if (over)
        tl_plane_last(a, rows, p.chans, turned);
    tl_split_among(tl_team(a->team), a->groups * a->n * panels * tiles, 1, &lo, &hi);
    for (int count; lo < hi; lo += count) {
        const int at = lo / tiles, first = lo - at * tiles, plane = at / panels, from = 4 * (at - plane * panels);
        const int skip = from + 4 > pixels ? from + 4 - pixels : 0;
        const int n = a->groups == 1 ? plane : plane / a->groups, group = plane - n * a->groups;
        const int channel = group * rows + 4 * first;
        count = tl_min(tiles - first, hi - lo);
        const int last = over && first + count == tiles, whole = count - last;
        p.in = (turned ? a->y : a->x) + n * in_p.n + group * p.chans * in_p.c + from - skip;
        p.out = (turned ? a->x : a->y) + n * out_p.n + channel * out_p.c + from - skip;
        p.w = a->w + (turned ? group * a->co * a->w_co + 4 * first : channel * a->w_co), p.w_step = a->w_co;
        p.bias = a->bias ? a->bias + channel : NULL;
        if (skip)
            tl_plane_edge(&p, whole, 4, skip, turned);
        else if (whole)
            tl_plane_whole(&p, whole, turned);
        if (last) {
            p.out += 4 * whole * out_p.c, p.bias += a->bias ? 4 * whole : 0;
            p.w = a->scratch, p.w_step = turned ? 4 : p.chans;
            tl_plane_edge(&p, 1, over, skip, turned);
        }
    }
}
#endif
