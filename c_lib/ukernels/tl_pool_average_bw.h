/* Gradients of averages over windows; internal to c_lib/kernels. */
#ifndef TL_POOL_AVERAGE_BW_H
#define TL_POOL_AVERAGE_BW_H
#include "tl_window.h"

/* What one row of outputs (gradients g) gives to a strip, each divided by what its window counts: `count` rows, and
 * columns->fixed columns if `even` (a literal). */
INLINE void shared_row(strip s, axis columns, const float *g, int count, reciprocal *scale, int even)
{
    float inverse = even ? inverse_of(scale, count * columns.fixed) : 0.0f;
    for (int ix = s.from; ix < s.to; ix++) {
        float total = s.add ? s.x[ix] : 0.0f;
        cover_next(&s.c, &columns, ix);
        for (int first = s.c.first; first < s.c.last; first += TL_KC) {
            int last = smaller(s.c.last, first + TL_KC);
            float sum = 0.0f;
            for (int ox = first; ox < last; ox++) {
                if (!even)
                    inverse = inverse_of(scale, count * counted(&columns, ox, start_of(&columns, ox)));
                sum = __builtin_fmaf(g[ox], inverse, sum);
            }
            total += sum;
        }
        s.x[ix] = total;
    }
}

APART void shared_row_of(const strip *s, const axis *columns, const float *g, int count, reciprocal *scale, int even)
{
    axis own = *columns;
    if (even)
        own.adaptive = 0;
    shared_row(*s, own, g, count, scale, even);
}

/* The gradient of a strip of one input row, from the rows of windows r of one plane. */
INLINE void shared_strip(const tl_pool2d *a, const axis *rows, const axis *columns, int plane, cover r, strip s,
                         reciprocal *scale, int even)
{
    for (int oy = r.first; oy < r.last; oy++) {
        int count = counted(rows, oy, start_of(rows, oy));
        const float *g = a->y + plane * a->yp.plane + oy * a->yp.row;
        shared_row_of(&s, columns, g, count, scale, even);
        s.add = 1;
    }
    for (int ix = s.from; ix < s.to && !s.add; ix++)
        s.x[ix] = 0.0f;
}

/* One row of inputs under windows that do not overlap; count: the rows that they count, or 0 for a row between them. */
INLINE void row_of_shares(const tl_pool2d *a, const axis *columns, part p, cover c, int count, const float *g,
                          reciprocal *scale)
{
    float *x = a->x + p.plane * a->xp.plane + p.row * a->xp.row;
    int ix = p.from;
    for (int ox = c.first; ox < columns->out && count; ox++) {
        int start = start_of(columns, ox), end = smaller(start + columns->k, p.to);
        if (start >= p.to)
            break;
        float share = g[ox] * inverse_of(scale, count * counted(columns, ox, start));
        for (; ix < start; ix++)
            x[ix] = 0.0f;
        for (; ix < end; ix++)
            x[ix] = share;
    }
    for (; ix < p.to; ix++)
        x[ix] = 0.0f;
}

/* Windows that do not overlap. */
INLINE void average_backward_apart(const tl_pool2d *a)
{
    axis rows = rows_of(a, 0), columns = columns_of(a, 0);
    reciprocal scale = {0, 0.0f};
    int lo, hi;
    TL_PROMISE(disjoint(&rows) && disjoint(&columns));
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        int count = r.first < r.last ? counted(&rows, r.first, start_of(&rows, r.first)) : 0;
        const float *g = a->y + p.plane * a->yp.plane + r.first * a->yp.row;
        row_of_shares(a, &columns, p, c, count, g, &scale);
        lo += p.to - p.from;
    }
}

/* even, a literal: all windows count the same number of columns. */
INLINE void average_backward(const tl_pool2d *a, int adaptive, int even)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    reciprocal scale = {0, 0.0f};
    int lo, hi;
    TL_PROMISE(!even || columns.fixed);
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        float *x = a->x + p.plane * a->xp.plane + p.row * a->xp.row;
        shared_strip(a, &rows, &columns, p.plane, r, (strip){x, p.from, p.to, 0, c}, &scale, even);
        lo += p.to - p.from;
    }
}
#endif
