/* Gradients of maxima over windows; internal to c_lib/kernels. */
#ifndef TL_POOL_MAX_BW_H
#define TL_POOL_MAX_BW_H
#include "tl_pool_element.h"
#include "tl_window.h"

INLINE int load_tap(const void *taps, int bytes, int at)
{
    if (bytes == 1)
        return ((const uint8_t *)taps)[at];
    if (bytes == 2)
        return ((const uint16_t *)taps)[at];
    return (int)((const uint32_t *)taps)[at];
}

/* Which tap of the window that starts at `start` input i is, or -1 if it falls between two. */
INLINE int tap_of(const axis *s, int i, int start)
{
    if (s->adaptive || s->dil == 1)
        return i - start;
    return (i - start) % s->dil ? -1 : (i - start) / s->dil;
}

/* A sum, and what one row of outputs (gradients g, winners `taps`) adds to input ix, which lies under tap number
 * ky_taps and the next ones of the windows c. `plain`, a literal: regular windows without holes, so that a neighbour's
 * tap is a stride away. */
INLINE float won_sum(float total, const axis *columns, cover c, int ix, const element *g, const void *taps, int bytes,
                     int ky_taps, int plain)
{
    int near = ix - start_of(columns, c.first);
    for (int ox = c.first; ox < c.last; ox++, near -= columns->stride) {
        int kx = plain ? near : tap_of(columns, ix, start_of(columns, ox));
        if ((plain || kx >= 0) && load_tap(taps, bytes, ox) == ky_taps + kx)
            total += WIDENED(g[ox]);
    }
    return total;
}

/* The same of a strip. */
INLINE void won_row(strip s, axis columns, const element *g, const void *taps, int bytes, int ky_taps, int plain)
{
    for (int ix = s.from; ix < s.to; ix++) {
        cover_next(&s.c, &columns, ix);
        s.x[ix] = won_sum(s.add ? s.x[ix] : 0.0f, &columns, s.c, ix, g, taps, bytes, ky_taps, plain);
    }
}

/* Regular windows without holes if `plain`; their taps are numbered in so many bytes. */
APART void won_row_of(const strip *s, const axis *columns, const element *g, const void *taps, int bytes, int ky_taps,
                      int plain)
{
    axis own = *columns;
    if (plain)
        own.adaptive = 0;
    won_row(*s, own, g, taps, bytes, ky_taps, plain);
}

/* The gradient of a strip of input row iy, from the rows of windows r of one plane. */
INLINE void won_strip(const tl_pool2d *a, const axis *rows, const axis *columns, int plane, cover r, int iy, strip s,
                      int plain)
{
    const int bytes = plain ? plain : a->tap_bytes;
    for (int oy = r.first; oy < r.last; oy++) {
        int ky = tap_of(rows, iy, start_of(rows, oy));
        if (ky < 0)
            continue;
        const element *g = a->READ(y) + plane * a->yp.plane + oy * a->yp.row;
        const char *taps = (const char *)a->tap + (ptrdiff_t)(plane * a->tp.plane + oy * a->tp.row) * bytes;
        won_row_of(&s, columns, g, taps, bytes, ky * a->kw, plain);
        s.add = 1;
    }
    for (int ix = s.from; ix < s.to && !s.add; ix++)
        s.x[ix] = 0.0f;
}

/* One row of inputs under windows that do not overlap; ky: which of their rows it is, or -1; g, taps: their outputs. */
INLINE void row_of_winners(const tl_pool2d *a, const axis *columns, part p, cover c, int ky, const element *g, int taps)
{
    element *x = a->READ(x) + p.plane * a->xp.plane + p.row * a->xp.row;
    int ix = p.from;
    for (int ox = c.first; ox < columns->out && ky >= 0; ox++) {
        int start = start_of(columns, ox), end = smaller(start + columns->k, p.to);
        if (start >= p.to)
            break;
        int won = start + load_tap(a->tap, a->tap_bytes, taps + ox) - ky * a->kw;
        for (; ix < start; ix++)
            x[ix] = 0;
        for (; ix < end; ix++)
            x[ix] = ix == won ? g[ox] : 0;
    }
    for (; ix < p.to; ix++)
        x[ix] = 0;
}

/* Windows that do not overlap. */
INLINE void max_backward_apart(const tl_pool2d *a)
{
    axis rows = rows_of(a, 0), columns = columns_of(a, 0);
    int lo, hi;
    TL_PROMISE(disjoint(&rows) && disjoint(&columns));
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        int ky = r.first < r.last ? p.row - start_of(&rows, r.first) : -1;
        const element *g = a->READ(y) + p.plane * a->yp.plane + r.first * a->yp.row;
        row_of_winners(a, &columns, p, c, ky, g, p.plane * a->tp.plane + r.first * a->tp.row);
        lo += p.to - p.from;
    }
}

/* plain, a literal: neighbouring taps whose numbers take so many bytes; 0: any. */
INLINE void max_backward(const tl_pool2d *a, int adaptive, int plain)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    int lo, hi;
    TL_PROMISE(!plain || (a->tap_bytes == plain && a->dil_w == 1 && !adaptive));
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        float *x = a->x + p.plane * a->xp.plane + p.row * a->xp.row;
        won_strip(a, &rows, &columns, p.plane, r, p.row, (strip){x, p.from, p.to, 0, c}, plain);
        lo += p.to - p.from;
    }
}

/* The gradient of input ix of row iy, from all the windows r and c that it lies under. */
INLINE float won_element(const tl_pool2d *a, const axis *rows, const axis *columns, int plane, cover r, cover c, int iy,
                         int ix)
{
    float total = 0.0f;
    for (int oy = r.first; oy < r.last; oy++) {
        const int ky = tap_of(rows, iy, start_of(rows, oy));
        const element *g = a->READ(y) + plane * a->yp.plane + oy * a->yp.row;
        const char *taps = (const char *)a->tap + (ptrdiff_t)(plane * a->tp.plane + oy * a->tp.row) * a->tap_bytes;
        if (ky >= 0)
            total = won_sum(total, columns, c, ix, g, taps, a->tap_bytes, ky * a->kw, 0);
    }
    return total;
}

/* Element by element, so that a sum is rounded once. */
INLINE void max_backward_each(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    int lo, hi;
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        element *x = a->READ(x) + p.plane * a->xp.plane + p.row * a->xp.row;
        for (int ix = p.from; ix < p.to; ix++) {
            cover_next(&c, &columns, ix);
            x[ix] = NARROWED(won_element(a, &rows, &columns, p.plane, r, c, p.row, ix));
        }
        lo += p.to - p.from;
    }
}
#endif
