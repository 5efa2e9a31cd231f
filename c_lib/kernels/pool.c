/* Pooling: maxima and averages over windows of a plane, regular or adaptive, and their gradients.
 *
 * Cores share the written elements evenly, cut anywhere in a row. A gradient gathers, for each input element, over the
 * windows that contain it; where windows do not overlap, it runs along them instead. Sums go along a row of the window
 * (or of windows) from zero, in blocks of at most 64; the blocks add up in order. */
#include "tl_pool.h"

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline)) /* inner loops: a function of their own keeps them in registers */
#define BLOCK 64

/* Rows or columns of the planes, and how windows lie on them. */
typedef struct {
    int in, out, k, stride, pad, dil;
    int reach;          /* from the first tap of a window to behind its last one */
    int count0, count1; /* what the divisor of an average counts */
    int fixed;          /* the number that every window counts, or 0 where they differ */
    int whole0, whole1; /* the outputs between have all their taps */
    int adaptive;       /* a literal after inlining */
} axis;

/* The taps of one window: input start + k*dil for k0 <= k < k1. */
typedef struct {
    int start, k0, k1;
} window;

/* Written elements from..to-1 of one row. */
typedef struct {
    int plane, row, from, to;
} part;

INLINE int larger(int a, int b)
{
    return a > b ? a : b;
}

INLINE int smaller(int a, int b)
{
    return a < b ? a : b;
}

INLINE axis finished(axis s, int divisor, int adaptive)
{
    s.adaptive = adaptive;
    s.reach = (s.k - 1) * s.dil + 1;
    int last = (s.out - 1) * s.stride - s.pad;
    s.fixed = divisor;
    if (adaptive)
        return s;
    if (!divisor && -s.pad >= s.count0 && last + s.k <= s.count1)
        s.fixed = s.k;
    int room = s.in + s.pad - s.reach;
    s.whole0 = s.pad > 0 ? (s.pad + s.stride - 1) / s.stride : 0;
    s.whole1 = room < 0 ? 0 : room / s.stride + 1;
    return s;
}

INLINE axis rows_of(const tl_pool2d *a, int adaptive)
{
    axis s = {.in = a->h, .out = a->ho, .k = a->kh, .stride = a->stride_h, .pad = a->pad_h, .dil = a->dil_h};
    s.count0 = a->count_h0;
    s.count1 = a->count_h1;
    return finished(s, a->divisor, adaptive);
}

INLINE axis columns_of(const tl_pool2d *a, int adaptive)
{
    axis s = {.in = a->wd, .out = a->wo, .k = a->kw, .stride = a->stride_w, .pad = a->pad_w, .dil = a->dil_w};
    s.count0 = a->count_w0;
    s.count1 = a->count_w1;
    return finished(s, a->divisor != 0, adaptive);
}

INLINE int start_of(const axis *s, int o)
{
    return s->adaptive ? o * s->in / s->out : o * s->stride - s->pad;
}

INLINE int end_of(const axis *s, int o)
{
    return s->adaptive ? ((o + 1) * s->in + s->out - 1) / s->out : o * s->stride - s->pad + s->reach;
}

/* The number of rows or columns that window o, which starts at `start`, counts. */
INLINE int counted(const axis *s, int o, int start)
{
    if (s->fixed)
        return s->fixed;
    if (s->adaptive)
        return end_of(s, o) - start;
    return smaller(start + s->k, s->count1) - larger(start, s->count0);
}

INLINE window window_at(const axis *s, int o)
{
    window w = {start_of(s, o), 0, s->k};
    if (s->adaptive) {
        w.k1 = end_of(s, o) - w.start;
        return w;
    }
    if (o >= s->whole0 && o < s->whole1)
        return w;
    while (w.k0 < w.k1 && w.start + w.k0 * s->dil < 0)
        w.k0++;
    while (w.k1 > w.k0 && w.start + (w.k1 - 1) * s->dil >= s->in)
        w.k1--;
    return w;
}

/* How many outputs from o on, below `to`, have all their taps, or 1 for one that does not. */
INLINE int run_from(const axis *s, int o, int to)
{
    return o >= s->whole0 && o < s->whole1 ? smaller(s->whole1, to) - o : 1;
}

/* The part of row i / columns which a core which writes elements up to `end` does next. */
INLINE part part_at(int i, int end, int rows, int columns)
{
    int line = i / columns;
    part p = {line / rows, line % rows, i - line * columns, 0};
    p.to = smaller(columns, p.from + end - i);
    return p;
}

/* 1 / count, divided only where the count changes. */
typedef struct {
    int count;
    float inverse;
} reciprocal;

INLINE float inverse_of(reciprocal *r, int count)
{
    if (count != r->count) {
        r->count = count;
        r->inverse = 1.0f / (float)count;
    }
    return r->inverse;
}

/* ---- forward */

INLINE void store_tap(void *taps, int bytes, int at, int tap)
{
    if (bytes == 1)
        ((uint8_t *)taps)[at] = (uint8_t)tap;
    else if (bytes == 2)
        ((uint16_t *)taps)[at] = (uint16_t)tap;
    else
        ((uint32_t *)taps)[at] = (uint32_t)tap;
}

INLINE void take(float v, int tap, float *best, int *won)
{
    if (v <= *best)
        return;
    if (*best != *best && v == v) /* a NaN stays */
        return;
    *best = v;
    *won = tap;
}

/* The maximum over `rows` x `columns` taps, of which x is number `tap`; whole rows of taps are `kw` apart. */
INLINE float window_max(const float *x, int rows, int columns, int step_h, int step_w, int tap, int kw, int *won)
{
    float best = -__builtin_inff();
    *won = tap;
    for (; rows > 0; rows--, x += step_h, tap += kw) {
        take(x[0], tap, &best, won);
        if (columns == 2) {
            take(x[step_w], tap + 1, &best, won);
        } else if (columns == 3) {
            take(x[step_w], tap + 1, &best, won);
            take(x[2 * step_w], tap + 2, &best, won);
        } else {
            const float *v = x;
            for (int i = 1; i < columns; i++)
                take(*(v += step_w), tap + i, &best, won);
        }
    }
    return best;
}

/* `n` outputs of one row from output `at` on, whose windows lie `stride` apart and hold as many taps. */
APART void max_run(const tl_pool2d *a, int at, int tap_at, int n, const float *x, int stride, int rows, int columns,
                   int step_h, int step_w, int tap)
{
    float *y = a->y + at;
    void *taps = a->tap;
    int bytes = a->tap_bytes, kw = a->kw;
    for (int i = 0; i < n; i++, x += stride) {
        int won;
        y[i] = window_max(x, rows, columns, step_h, step_w, tap, kw, &won);
        store_tap(taps, bytes, tap_at + i, won);
    }
}

INLINE void max_forward(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    int lo, hi, step_w = adaptive ? 1 : a->dil_w, step_h = adaptive ? 1 : a->dil_h;
    tl_split(a->planes * a->ho * a->wo, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->ho, a->wo);
        window r = window_at(&rows, p.row);
        int x = p.plane * a->xp.plane + (r.start + r.k0 * step_h) * a->xp.row;
        int y = p.plane * a->yp.plane + p.row * a->yp.row, tap = p.plane * a->tp.plane + p.row * a->tp.row;
        for (int ox = p.from, n; ox < p.to; ox += n) {
            window c = window_at(&columns, ox);
            int height = c.k0 < c.k1 ? r.k1 - r.k0 : 0;
            n = run_from(&columns, ox, p.to);
            max_run(a, y + ox, tap + ox, n, a->x + x + c.start + c.k0 * step_w, columns.stride, height, c.k1 - c.k0,
                    step_h * a->xp.row, step_w, r.k0 * a->kw + c.k0);
        }
        lo += p.to - p.from;
    }
}

/* x[0] + .. + x[n-1], n >= 1, in blocks. */
INLINE float add_row(const float *x, int n, float total)
{
    if (n == 2)
        return total + (x[0] + x[1]);
    if (n == 3)
        return total + (x[0] + x[1] + x[2]);
    for (int from = 0; from < n; from += BLOCK) {
        float sum = x[from];
        int to = smaller(n, from + BLOCK);
        for (int i = from + 1; i < to; i++)
            sum += x[i];
        total += sum;
    }
    return total;
}

APART void average_run(float *y, int n, const float *x, int stride, int rows, int columns, int pitch, float inverse)
{
    for (int i = 0; i < n; i++, x += stride) {
        float sum = 0.0f;
        const float *row = x;
        for (int ky = 0; ky < rows; ky++, row += pitch)
            sum = add_row(row, columns, sum);
        y[i] = sum * inverse;
    }
}

INLINE void average_forward(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    reciprocal scale = {0, 0.0f};
    int lo, hi;
    tl_split(a->planes * a->ho * a->wo, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->ho, a->wo);
        window r = window_at(&rows, p.row);
        int count = counted(&rows, p.row, r.start);
        int x = p.plane * a->xp.plane + (r.start + r.k0) * a->xp.row;
        float *y = a->y + p.plane * a->yp.plane + p.row * a->yp.row;
        for (int ox = p.from, n; ox < p.to; ox += n) {
            window c = window_at(&columns, ox);
            float inverse = inverse_of(&scale, count * counted(&columns, ox, c.start));
            n = run_from(&columns, ox, p.to);
            average_run(y + ox, n, a->x + x + c.start + c.k0, columns.stride, r.k1 - r.k0, c.k1 - c.k0, a->xp.row,
                        inverse);
        }
        lo += p.to - p.from;
    }
}

/* ---- backward */

/* The windows first..last-1 that reach input element i, kept while i steps forward. */
typedef struct {
    int first, last;
    int first_end;  /* where window `first` ends */
    int last_start; /* where window `last` starts */
} cover;

INLINE cover cover_of(const axis *s, int i)
{
    cover c;
    int t = i + s->pad;
    if (s->adaptive)
        c.first = i * s->out / s->in;
    else
        c.first = t < s->reach ? 0 : (t - s->reach) / s->stride + 1;
    if (s->adaptive)
        c.last = ((i + 1) * s->out + s->in - 1) / s->in;
    else
        c.last = t < 0 ? 0 : smaller(t / s->stride + 1, s->out);
    c.first_end = end_of(s, c.first);
    c.last_start = start_of(s, c.last);
    return c;
}

INLINE void cover_next(cover *c, const axis *s, int i)
{
    while (c->first_end <= i) {
        c->first++;
        c->first_end = end_of(s, c->first);
    }
    while (c->last < s->out && c->last_start <= i) {
        c->last++;
        c->last_start = start_of(s, c->last);
    }
}

INLINE int load_tap(const void *taps, int bytes, int at)
{
    if (bytes == 1)
        return ((const uint8_t *)taps)[at];
    if (bytes == 2)
        return ((const uint16_t *)taps)[at];
    return (int)((const uint32_t *)taps)[at];
}

/* No input element lies under two windows, nor between the taps of one. */
INLINE int disjoint(const axis *s)
{
    return !s->adaptive && s->dil == 1 && s->stride >= s->k;
}

/* Which tap of the window that starts at `start` input i is, or -1 if it falls between two. */
INLINE int tap_of(const axis *s, int i, int start)
{
    if (s->adaptive || s->dil == 1)
        return i - start;
    return (i - start) % s->dil ? -1 : (i - start) / s->dil;
}

/* Input columns from..to-1 of one row, and the windows that reach the first of them. `add` to x, or overwrite. */
typedef struct {
    float *x;
    int from, to, add;
    cover c;
} strip;

/* What one row of outputs (gradients g, winners `taps`) gives to a strip that lies under tap number ky_taps and the
 * next ones of their windows. `plain`, a literal: regular windows without holes, so that a neighbour's tap is a stride
 * away. */
INLINE void won_row(strip s, axis columns, const float *g, const void *taps, int bytes, int ky_taps, int plain)
{
    for (int ix = s.from; ix < s.to; ix++) {
        float total = s.add ? s.x[ix] : 0.0f;
        cover_next(&s.c, &columns, ix);
        for (int first = s.c.first; first < s.c.last; first += BLOCK) {
            int last = smaller(s.c.last, first + BLOCK), near = ix - start_of(&columns, first);
            float sum = 0.0f;
            for (int ox = first; ox < last; ox++, near -= columns.stride) {
                int kx = plain ? near : tap_of(&columns, ix, start_of(&columns, ox));
                if ((plain || kx >= 0) && load_tap(taps, bytes, ox) == ky_taps + kx)
                    sum += g[ox];
            }
            total += sum;
        }
        s.x[ix] = total;
    }
}

APART void won_row_1(const strip *s, const axis *columns, const float *g, const void *taps, int ky_taps)
{
    axis regular = *columns;
    regular.adaptive = 0;
    won_row(*s, regular, g, taps, 1, ky_taps, 1);
}

APART void won_row_2(const strip *s, const axis *columns, const float *g, const void *taps, int ky_taps)
{
    axis regular = *columns;
    regular.adaptive = 0;
    won_row(*s, regular, g, taps, 2, ky_taps, 1);
}

APART void won_row_any(const strip *s, const axis *columns, const float *g, const void *taps, int bytes, int ky_taps)
{
    won_row(*s, *columns, g, taps, bytes, ky_taps, 0);
}

/* The gradient of a strip of input row iy, from the rows of windows r of one plane. */
INLINE void won_strip(const tl_pool2d *a, const axis *rows, const axis *columns, int plane, cover r, int iy, strip s)
{
    for (int oy = r.first; oy < r.last; oy++) {
        int ky = tap_of(rows, iy, start_of(rows, oy));
        if (ky < 0)
            continue;
        const float *g = a->y + plane * a->yp.plane + oy * a->yp.row;
        const char *taps = (const char *)a->tap + (ptrdiff_t)(plane * a->tp.plane + oy * a->tp.row) * a->tap_bytes;
        if (columns->adaptive || columns->dil != 1 || a->tap_bytes == 4)
            won_row_any(&s, columns, g, taps, a->tap_bytes, ky * a->kw);
        else if (a->tap_bytes == 1)
            won_row_1(&s, columns, g, taps, ky * a->kw);
        else
            won_row_2(&s, columns, g, taps, ky * a->kw);
        s.add = 1;
    }
    for (int ix = s.from; ix < s.to && !s.add; ix++)
        s.x[ix] = 0.0f;
}

/* One row of inputs under windows that do not overlap; ky: which of their rows it is, or -1; g, taps: their outputs. */
INLINE void row_of_winners(const tl_pool2d *a, const axis *columns, part p, cover c, int ky, const float *g, int taps)
{
    float *x = a->x + p.plane * a->xp.plane + p.row * a->xp.row;
    int ix = p.from;
    for (int ox = c.first; ox < columns->out && ky >= 0; ox++) {
        int start = start_of(columns, ox), end = smaller(start + columns->k, p.to);
        if (start >= p.to)
            break;
        int won = start + load_tap(a->tap, a->tap_bytes, taps + ox) - ky * a->kw;
        for (; ix < start; ix++)
            x[ix] = 0.0f;
        for (; ix < end; ix++)
            x[ix] = ix == won ? g[ox] : 0.0f;
    }
    for (; ix < p.to; ix++)
        x[ix] = 0.0f;
}

INLINE void max_backward(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    int lo, hi, apart = disjoint(&rows) && disjoint(&columns);
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        float *x = a->x + p.plane * a->xp.plane + p.row * a->xp.row;
        lo += p.to - p.from;
        if (apart) {
            int ky = r.first < r.last ? p.row - start_of(&rows, r.first) : -1;
            const float *g = a->y + p.plane * a->yp.plane + r.first * a->yp.row;
            row_of_winners(a, &columns, p, c, ky, g, p.plane * a->tp.plane + r.first * a->tp.row);
            continue;
        }
        won_strip(a, &rows, &columns, p.plane, r, p.row, (strip){x, p.from, p.to, 0, c});
    }
}

/* What one row of outputs (gradients g) gives to a strip, each divided by what its window counts: `count` rows, and
 * columns->fixed columns if `even` (a literal). */
INLINE void shared_row(strip s, axis columns, const float *g, int count, reciprocal *scale, int even)
{
    float inverse = even ? inverse_of(scale, count * columns.fixed) : 0.0f;
    for (int ix = s.from; ix < s.to; ix++) {
        float total = s.add ? s.x[ix] : 0.0f;
        cover_next(&s.c, &columns, ix);
        for (int first = s.c.first; first < s.c.last; first += BLOCK) {
            int last = smaller(s.c.last, first + BLOCK);
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

APART void shared_row_even(const strip *s, const axis *columns, const float *g, int count, reciprocal *scale)
{
    axis regular = *columns;
    regular.adaptive = 0;
    shared_row(*s, regular, g, count, scale, 1);
}

APART void shared_row_any(const strip *s, const axis *columns, const float *g, int count, reciprocal *scale)
{
    shared_row(*s, *columns, g, count, scale, 0);
}

/* The gradient of a strip of one input row, from the rows of windows r of one plane. */
INLINE void shared_strip(const tl_pool2d *a, const axis *rows, const axis *columns, int plane, cover r, strip s,
                         reciprocal *scale)
{
    for (int oy = r.first; oy < r.last; oy++) {
        int count = counted(rows, oy, start_of(rows, oy));
        const float *g = a->y + plane * a->yp.plane + oy * a->yp.row;
        if (columns->fixed && !columns->adaptive)
            shared_row_even(&s, columns, g, count, scale);
        else
            shared_row_any(&s, columns, g, count, scale);
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

INLINE void average_backward(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    reciprocal scale = {0, 0.0f};
    int lo, hi, apart = disjoint(&rows) && disjoint(&columns);
    tl_split(a->planes * a->h * a->wd, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->h, a->wd);
        cover r = cover_of(&rows, p.row), c = cover_of(&columns, p.from);
        float *x = a->x + p.plane * a->xp.plane + p.row * a->xp.row;
        lo += p.to - p.from;
        if (apart) {
            int count = r.first < r.last ? counted(&rows, r.first, start_of(&rows, r.first)) : 0;
            const float *g = a->y + p.plane * a->yp.plane + r.first * a->yp.row;
            row_of_shares(a, &columns, p, c, count, g, &scale);
            continue;
        }
        shared_strip(a, &rows, &columns, p.plane, r, (strip){x, p.from, p.to, 0, c}, &scale);
    }
}

/* ---- the kernels */

void tl_maxpool2d_fw_f32(const tl_pool2d *a)
{
    max_forward(a, 0);
}

void tl_adaptive_maxpool2d_fw_f32(const tl_pool2d *a)
{
    max_forward(a, 1);
}

void tl_maxpool2d_bw_f32(const tl_pool2d *a)
{
    max_backward(a, 0);
}

void tl_adaptive_maxpool2d_bw_f32(const tl_pool2d *a)
{
    max_backward(a, 1);
}

void tl_avgpool2d_fw_f32(const tl_pool2d *a)
{
    average_forward(a, 0);
}

void tl_adaptive_avgpool2d_fw_f32(const tl_pool2d *a)
{
    average_forward(a, 1);
}

void tl_avgpool2d_bw_f32(const tl_pool2d *a)
{
    average_backward(a, 0);
}

void tl_adaptive_avgpool2d_bw_f32(const tl_pool2d *a)
{
    average_backward(a, 1);
}
