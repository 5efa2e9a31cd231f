/* Convolution with one tap and its input gradient over dense planes; internal to c_lib/kernels. Tiles of 4 output
 * channels x 3 or 4 neighbouring pixels, pixels fastest; each core takes a contiguous range. Inputs and weights are
 * read where they lie. Planes are whole threes; or their last four pixels are a panel of their own, of which those are
 * stored that no other panel has. */
#ifndef TL_CONV_SIDE_H
#define TL_CONV_SIDE_H
#include "tl_plane_fours.h" /* first: it sets how the whole file is compiled */
#include "tl_plane_threes.h"
#include "tl_conv.h"
#include "tl_promise.h"

/* Where the tiles of a core begin: with those of four channels, if these and the cores allow. Rounded down in one half
 * of the team, up in the other: so two cores that share a float unit have as many tiles as two others, be they
 * neighbours or half the team apart. */
static inline int tl_side_first(int id, int cores, int total)
{
    return (total * id + (2 * id > cores ? cores - 1 : 0)) / cores;
}

static inline void tl_side_share(int cores, int total, int *lo, int *hi)
{
    const int id = tl_min(tl_core_id(), cores);
    *lo = tl_side_first(id, cores, total);
    *hi = id < cores ? tl_side_first(id + 1, cores, total) : *lo;
}

/* Of the last four pixels of so many tiles those from `skip` on. The others are made again where they are this core's
 * and are added to nothing that changes. */
static __attribute__((noinline)) void tl_side_edge(const tl_plane_side *all, int skip, int turned)
{
    const int at = 4 * all->count - 4 - skip, again = all->count > 1 && all->base != all->out;
    float tile[16], *const out = all->out + at;
    const float *base = all->base + at * all->base_step;
    tl_plane_side t = *all;
    t.in += at, t.out = out, t.base = base, t.count = 1;
    if (!again) {
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                tile[4 * i + j] = j >= skip ? base[i * all->base_row + j * all->base_step] : 0.0f;
        t.base = t.out = tile, t.base_step = 1, t.base_row = t.out_c = 4;
    }
    tl_plane_fours(&t, turned);
    for (int i = 0; !again && i < 4; ++i)
        for (int j = skip; j < 4; ++j)
            out[i * all->out_c + j] = tile[4 * i + j];
}

/* Tiles over one block of terms, the last one without its first `skip` pixels. wide and turned, literals. */
static inline __attribute__((always_inline)) void tl_side_block(tl_plane_side *t, int skip, int wide, int turned)
{
    const int count = t->count;
    if (wide == 3) {
        tl_plane_threes(t);
        return;
    }
    if (skip)
        tl_side_edge(t, skip, turned), --t->count;
    if (t->count)
        tl_plane_fours(t, turned);
    t->count = count;
}

/* All groups. turned, a literal: an input gradient; wide, a literal: pixels of a tile. */
static inline __attribute__((always_inline)) void tl_conv_side(const tl_conv2d *a, int wide, int turned)
{
    const float zero = 0.0f, *const in = turned ? a->y : a->x;
    float *const to = turned ? a->x : a->y;
    const tl_pitch in_p = turned ? a->yp : a->xp, out_p = turned ? a->xp : a->yp;
    const int rows = turned ? a->ci : a->co, terms = turned ? a->co : a->ci;
    const int fours = rows >> 2, pixels = a->h * a->wd, panels = (pixels + wide - 1) / wide;
    int lo, hi;
    TL_PROMISE(a->kh * a->kw == 1 && a->w_ci == 1 && rows > 0 && terms > 0 && rows % 4 == 0);
    TL_PROMISE(wide == 3 ? pixels % 3 == 0 : pixels >= 4);
    TL_PROMISE((a->h == 1 || (a->xp.h == a->wd && a->yp.h == a->wd)) && a->h == a->ho && a->wd == a->wo);
    tl_plane_side t = {.w_row = turned ? 1 : a->w_co, .w_term = turned ? a->w_co : 1, .in_c = in_p.c, .out_c = out_p.c};
    tl_side_share(tl_team(a->team), a->groups * a->n * fours * panels, &lo, &hi);
    for (; lo < hi; lo += t.count) {
        const int at = lo / panels, first = lo - at * panels, image = at / fours, four = at - image * fours;
        const int n = a->groups == 1 ? image : image / a->groups, group = image - n * a->groups;
        const int channel = group * rows + 4 * four;
        const float *x = in + n * in_p.n + group * terms * in_p.c + wide * first;
        const float *w = a->w + (turned ? group * a->co * a->w_co + 4 * four : channel * a->w_co);
        t.count = tl_min(panels - first, hi - lo);
        t.out = to + n * out_p.n + channel * out_p.c + wide * first;
        t.base = &zero, t.base_step = t.base_row = 0;
        if (a->bias)
            t.base = a->bias + channel, t.base_row = 1;
        for (int done = 0; done < terms; done += TL_KC) {
            if (done > 0 || a->accumulate)
                t.base = t.out, t.base_step = 1, t.base_row = out_p.c;
            t.w = w + done * t.w_term, t.in = x + done * in_p.c, t.terms = tl_min(TL_KC, terms - done);
            tl_side_block(&t, tl_max(0, wide * (first + t.count) - pixels), wide, turned);
        }
    }
}
#endif
