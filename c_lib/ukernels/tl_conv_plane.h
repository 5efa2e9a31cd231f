/* Convolution with one tap and its input gradient over dense planes, in whole tiles of channels; internal to
 * c_lib/kernels. Tiles of 4 output channels x 4 neighbouring pixels, channels fastest; each core takes a contiguous
 * range. Inputs and weights are read where they lie. The last four pixels of a plane are a panel of their own, of which
 * those are stored that no other panel has. */
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
    float *out;
    int in_c, out_c, w_step; /* from channel to channel; of w along summed channels (turned) or along outputs */
    int chans, accumulate;
} tl_plane_panel;

/* So many tiles, one below the other, over one block of terms. end: TL_SET, TL_ADD, or TL_PAUSE, one tile into `to`.
 * turned, a literal: weights of four outputs lie side by side. */
TL_PLANE void tl_plane_tiles(const tl_plane_panel *p, int done, int terms, int end, float *to, int count, int turned)
{
    const float *b = p->in + done * p->in_c, *w = p->w + (turned ? done * p->w_step : done);
#ifdef TL_XPULP_TILES
    const int bytes = end == TL_PAUSE ? 16 : 4 * p->out_c;
    tl_tile_way way = {NULL, to, bytes, to, bytes, end, terms};
    if (turned)
        tl_xpulp_panel(&way, w, 4, p->w_step, b, p->in_c, count);
    else
        tl_xpulp_rows(&way, w, p->w_step, b, p->in_c, count);
#else
    tl_panel_out out = {.c = to, .c_m = p->out_c, .cols = 4, .c_n = {0, 1, 2, 3}, .dense = 1, .tile = to};
    out.row_end = 4 * count, out.first = end == TL_SET, out.pause = end == TL_PAUSE;
    if (turned)
        tl_tile_panel(&out, w, 4, p->w_step, b, p->in_c, terms);
    else
        tl_tile_rows(&out, w, p->w_step, b, p->in_c, terms);
#endif
}

/* Of four pixels those from `skip` on, tile by tile. */
static __attribute__((noinline)) void tl_plane_edge(tl_plane_panel p, int count, int skip, int turned)
{
    float tile[16];
    for (; count > 0; --count, p.out += 4 * p.out_c, p.w += turned ? 4 : 4 * p.w_step) {
        for (int done = 0; done < p.chans; done += TL_KC) {
            const int set = done == 0 && !p.accumulate;
            tl_plane_tiles(&p, done, tl_min(TL_KC, p.chans - done), TL_PAUSE, tile, 1, turned);
            for (int i = 0; i < 4; ++i)
                for (int j = skip; j < 4; ++j)
                    p.out[i * p.out_c + j] = (set ? 0.0f : p.out[i * p.out_c + j]) + tile[4 * i + j];
        }
    }
}

/* All groups, rows and terms. */
TL_PLANE void tl_conv_plane(const tl_conv2d *a, int turned)
{
    const tl_pitch in_p = turned ? a->yp : a->xp, out_p = turned ? a->xp : a->yp;
    const int rows = turned ? a->ci : a->co, tiles = rows >> 2, pixels = a->h * a->wd, panels = (pixels + 3) >> 2;
    tl_plane_panel p = {.in_c = in_p.c, .out_c = out_p.c, .w_step = a->w_co, .accumulate = a->accumulate};
    p.chans = turned ? a->co : a->ci;
    int lo, hi;
    TL_PROMISE(a->kh * a->kw == 1 && a->w_ci == 1 && a->bias == NULL && rows % 4 == 0 && p.chans > 0);
    TL_PROMISE((a->h == 1 || (a->xp.h == a->wd && a->yp.h == a->wd)) && a->h == a->ho && a->wd == a->wo);
    tl_split_among(tl_team(a->team), a->groups * a->n * panels * tiles, 1, &lo, &hi);
    for (int count; lo < hi; lo += count) {
        const int at = lo / tiles, first = lo - at * tiles, plane = at / panels, from = 4 * (at - plane * panels);
        const int skip = from + 4 > pixels ? from + 4 - pixels : 0;
        const int n = a->groups == 1 ? plane : plane / a->groups, group = plane - n * a->groups;
        const int channel = group * rows + 4 * first;
        p.in = (turned ? a->y : a->x) + n * in_p.n + group * p.chans * in_p.c + from - skip;
        p.out = (turned ? a->x : a->y) + n * out_p.n + channel * out_p.c + from - skip;
        p.w = a->w + (turned ? group * a->co * a->w_co + 4 * first : channel * a->w_co);
        count = tl_min(tiles - first, hi - lo);
        if (skip) {
            tl_plane_edge(p, count, skip, turned);
            continue;
        }
        for (int done = 0, end = p.accumulate ? TL_ADD : TL_SET; done < p.chans; done += TL_KC, end = TL_ADD)
            tl_plane_tiles(&p, done, tl_min(TL_KC, p.chans - done), end, p.out, count, turned);
    }
}
#endif
