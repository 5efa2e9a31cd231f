/* Tiles of 4 output channels x 4 neighbouring pixels of a dense plane, one below the other; internal to
 * c_lib/kernels. */
#ifndef TL_PLANE_PANEL_H
#define TL_PLANE_PANEL_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"
#include "tl_tile_xpulp.h"
#include "tl_twos.h"

#define TL_PLANE_PANEL static inline __attribute__((always_inline))

/* How operands lie: weights side by side along summed channels; along outputs; tl_twos.h. */
enum { TL_PLANE_ROWS, TL_PLANE_TURNED, TL_PLANE_TWOS };

/* One of both directions. */
typedef struct {
    const float *in, *w; /* of one panel: from its first pixel and its first channel on */
    const float *bias;   /* of its channels, or NULL */
    float *out;
    int in_c, out_c, w_step; /* from channel to channel; of w along summed channels (turned) or along outputs */
    int terms, accumulate;
    int apart;         /* of TL_PLANE_TWOS: from the first pair to the second one */
    const int *places; /* ... and from the first term's input to that of each block, and behind the last one */
} tl_plane_panel;

/* A block of terms of TL_PLANE_TWOS. */
TL_PLANE_PANEL void tl_plane_twos(const tl_plane_panel *p, int done, int end, const float *base, float *to, int count)
{
    const int terms = tl_min(TL_KC, p->terms - done), *place = p->places + done / TL_KC;
    const tl_twos_term *w = (const tl_twos_term *)p->w + done;
    const float *in = p->in + place[0];
#ifdef TL_XPULP_TILES
    const int bytes = end == TL_PAUSE ? 16 : 4 * p->out_c;
    tl_tile_way way = {.to = to, .bytes = bytes, .end = end, .terms = terms};
    tl_onto(&way, base, base == to ? bytes : 4, base == to ? 4 : 0);
    tl_xpulp_twos(&way, w, p->terms, in, in + p->apart, 4 * (place[1] - place[0]), count);
#else
    for (; count > 0; --count, w += p->terms) {
        float tile[16];
        tl_twos_tile(w, in, in + p->apart, terms, end == TL_PAUSE ? to : tile);
        for (int i = 0; i < 16 && end != TL_PAUSE; ++i) {
            float *at = to + (i >> 2) * p->out_c + (i & 3);
            *at = tile[i] + (end == TL_SET ? 0.0f : base == p->out ? *at : base[i >> 2]);
        }
        to += 4 * p->out_c, base += base == p->out ? 0 : 4;
    }
#endif
}

/* So many tiles, one below the other, over one block of terms. end: TL_SET, TL_ADD, or TL_PAUSE, one tile into `to`.
 * What is added to lies in `base`. how, a literal. */
TL_PLANE_PANEL void tl_plane_tiles(const tl_plane_panel *p, int done, int end, const float *base, float *to, int count,
                                   int how)
{
    if (how == TL_PLANE_TWOS) {
        tl_plane_twos(p, done, end, base, to, count);
        return;
    }
    const int turned = how == TL_PLANE_TURNED;
    const int terms = tl_min(TL_KC, p->terms - done);
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
TL_PLANE_PANEL void tl_plane_whole(const tl_plane_panel *p, int count, int how)
{
    const float *base = p->bias && !p->accumulate ? p->bias : p->out;
    for (int done = 0, end = p->accumulate || p->bias ? TL_ADD : TL_SET; done < p->terms; done += TL_KC, end = TL_ADD) {
        tl_plane_tiles(p, done, end, base, p->out, count, how);
        base = p->out;
    }
}

/* Of each tile the pixels from `skip` on, and so many channels. */
static __attribute__((noinline)) void tl_plane_edge(const tl_plane_panel *panel, int count, int channels, int skip,
                                                    int how)
{
    float tile[17];
    tl_plane_panel p = *panel;
    const int next = how == TL_PLANE_TWOS ? p.terms * TL_TWOS_WORDS : how == TL_PLANE_TURNED ? 4 : 4 * p.w_step;
    tile[16] = 0.0f;
    for (; count > 0; --count, p.out += 4 * p.out_c, p.w += next, p.bias += p.bias ? 4 : 0)
        for (int done = 0; done < p.terms; done += TL_KC) {
            const int add = done > 0 || p.accumulate, down = add ? p.out_c : p.bias != NULL;
            const float *from = add ? p.out : p.bias ? p.bias : tile + 16, *sum = tile;
            float *to = p.out;
            tl_plane_tiles(&p, done, TL_PAUSE, tile, tile, 1, how);
            for (int i = channels; i > 0; --i, from += down, to += p.out_c, sum += 4)
                for (int j = skip; j < 4; ++j)
                    to[j] = from[add ? j : 0] + sum[j];
        }
}

#endif
