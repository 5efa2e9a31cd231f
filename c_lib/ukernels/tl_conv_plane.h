/* Convolution with one tap and its input gradient over dense planes; internal to c_lib/kernels. Tiles of 4 output
 * channels x 4 neighbouring pixels, channels fastest; each core takes a contiguous range. Inputs and weights are read
 * where they lie. The last four pixels of a plane are a panel of their own, of which those are stored that no other
 * panel has; the last channels, fewer than four, have weights with zeros in scratch. */
#ifndef TL_CONV_PLANE_H
#define TL_CONV_PLANE_H
#include "tl_plane_panel.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

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
TL_PLANE_PANEL void tl_conv_plane(const tl_conv2d *a, int turned, int ragged)
{
    const tl_pitch in_p = turned ? a->yp : a->xp, out_p = turned ? a->xp : a->yp;
    const int rows = turned ? a->ci : a->co, tiles = (rows + 3) >> 2, over = ragged ? rows & 3 : 0;
    const int pixels = a->h * a->wd, panels = (pixels + 3) >> 2;
    tl_plane_panel p = {.in_c = in_p.c, .out_c = out_p.c, .accumulate = a->accumulate};
    p.terms = turned ? a->co : a->ci;
    int lo, hi;
    TL_PROMISE(a->kh * a->kw == 1 && a->w_ci == 1 && rows > 0 && p.terms > 0);
    TL_PROMISE(ragged ? a->groups == 1 : rows % 4 == 0);
    TL_PROMISE((a->h == 1 || (a->xp.h == a->wd && a->yp.h == a->wd)) && a->h == a->ho && a->wd == a->wo);
    if (over)
        tl_plane_last(a, rows, p.terms, turned);
    tl_split_among(tl_team(a->team), a->groups * a->n * panels * tiles, 1, &lo, &hi);
    for (int count; lo < hi; lo += count) {
        const int at = lo / tiles, first = lo - at * tiles, plane = at / panels, from = 4 * (at - plane * panels);
        const int skip = from + 4 > pixels ? from + 4 - pixels : 0;
        const int n = a->groups == 1 ? plane : plane / a->groups, group = plane - n * a->groups;
        const int channel = group * rows + 4 * first;
        count = tl_min(tiles - first, hi - lo);
        const int last = over && first + count == tiles, whole = count - last;
        p.in = (turned ? a->y : a->x) + n * in_p.n + group * p.terms * in_p.c + from - skip;
        p.out = (turned ? a->x : a->y) + n * out_p.n + channel * out_p.c + from - skip;
        p.w = a->w + (turned ? group * a->co * a->w_co + 4 * first : channel * a->w_co), p.w_step = a->w_co;
        p.bias = a->bias ? a->bias + channel : NULL;
        if (skip)
            tl_plane_edge(&p, whole, 4, skip, turned);
        else if (whole)
            tl_plane_whole(&p, whole, turned);
        if (last) {
            p.out += 4 * whole * out_p.c, p.bias += a->bias ? 4 * whole : 0;
            p.w = a->scratch, p.w_step = turned ? 4 : p.terms;
            tl_plane_edge(&p, 1, over, skip, turned);
        }
    }
}
#endif
