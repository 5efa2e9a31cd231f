/* How the windows of pooling lie on a plane; internal to c_lib/kernels.
 *
 * Cores share the written elements evenly, cut anywhere in a row. A gradient gathers, for each input element, over the
 * windows that contain it; where windows do not overlap, it runs along them instead. Sums of averages go along a row
 * of the window (or of windows) from zero, in blocks of at most TL_KC; the blocks add up in order. What maxima get is
 * added up in the order of the windows, as PyTorch does. */
#ifndef TL_WINDOW_H
#define TL_WINDOW_H
#include "tl_block.h"
#include "tl_pool.h"
#include "tl_promise.h"

#define INLINE static inline __attribute__((always_inline))
/* Inner loops: a function of their own keeps them in registers; literals reach them, as a kernel calls each once. */
#define APART static __attribute__((noinline, unused))

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

/* No input element lies under two windows, nor between the taps of one. */
INLINE int disjoint(const axis *s)
{
    return !s->adaptive && s->dil == 1 && s->stride >= s->k;
}

/* Input columns from..to-1 of one row, and the windows that reach the first of them. `add` to x, or overwrite. */
typedef struct {
    float *x;
    int from, to, add;
    cover c;
} strip;
#endif
