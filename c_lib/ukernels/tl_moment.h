/* Recurrent layers: scans over time; internal to c_lib/kernels.
 *
 * Cores share the batch*hidden units of a step and meet at a barrier between steps. Backward, a unit's gradient is a
 * sum over the rows of w, of the step that was done before, down the unit's column. Sums run in index order from zero
 * in blocks of at most TL_KC; the blocks add up in order, and the rest of the terms joins at the end. */
#ifndef TL_MOMENT_H
#define TL_MOMENT_H
#include "tl_block.h"
#include "tl_dots_xpulp.h"
#include "tl_math.h"
#include "tl_pointer.h"
#include "tl_recurrent.h"
#include "tl_stored.h"

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline, unused)) /* called once per gate: one copy of the code is enough */

/* What the units of one sample see at one moment. */
typedef struct {
    const element *gates;
    element *saved, *dgates, *dhidden;
    const float *h_before, *c_before, *later; /* later: gradients of the gates of the step after, or NULL */
    float *h, *c, *dh, *dc;
    float *now;           /* what is `later` in the next step, of rows for halves */
    int before, after, y; /* where hs and cs have the states, and y its first element */
} moment;

INLINE int smaller(int a, int b)
{
    return a < b ? a : b;
}

APART float sigmoid(float x)
{
    return tl_sigmoidf(x);
}

APART float tanh_of(float x)
{
    return tl_tanhf(x);
}

/* Four neighbouring rows or columns of w, or three (then the last one is not read). */
typedef struct {
    const float *w[4];
} lines;

/* s[r] += w_r[k] x */
INLINE void take(float *s, const lines *w, int k, float x, int count)
{
    for (int r = 0; r < count; r++)
        s[r] = tl_fmaf(w->w[r][k], x, s[r]);
}

INLINE void advance(lines *w, int step)
{
    for (int r = 0; r < 4; r++)
        w->w[r] += step;
}

INLINE void add_to(float *total, const float *s, int count)
{
    for (int r = 0; r < count; r++)
        total[r] += s[r];
}

/* Those of `rows` that there are, up to four; the last one stands for what is missing. */
INLINE lines lines_of(const float *w, int pitch, int rows)
{
    const float *w1 = rows > 1 ? w + pitch : w, *w2 = rows > 2 ? w1 + pitch : w1;
    return (lines){{w, w1, w2, rows > 3 ? w2 + pitch : w2}};
}

#ifdef TL_XPULP_DOTS
/* total[r] += sum_k line_r[k step] v[k] for r < count, 3 or 4 (a literal) */
INLINE void add_lines(lines line, int step, const float *v, int n, int count, float *total)
{
    for (int left = n; left > 0; left -= TL_KC, v += TL_KC) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        tl_xpulp_dots(s, line.w, step, v, smaller(left, TL_KC), count);
        add_to(total, s, count);
    }
}
#endif

/* total[r] += sum_k row_r[k] v[k] for r < count, 3 or 4 (a literal) */
INLINE void add_rows(lines row, const float *v, int n, int count, float *total)
{
#ifdef TL_XPULP_DOTS
    add_lines(row, 1, v, n, count, total);
#else
    for (int left = n; left > 0; left -= TL_KC) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int k = smaller(left, TL_KC);
        for (; k >= 4; k -= 4) {
            take(s, &row, 0, v[0], count);
            take(s, &row, 1, v[1], count);
            take(s, &row, 2, v[2], count);
            take(s, &row, 3, v[3], count);
            advance(&row, 4);
            v += 4;
        }
        for (; k > 0; k--) {
            take(s, &row, 0, *v++, count);
            advance(&row, 1);
        }
        add_to(total, s, count);
    }
#endif
}

/* total += sum_k w[k*pitch] v[k] */
INLINE void add_line(const float *w, int pitch, const float *v, int n, float *total)
{
    for (int k = 0; k < n;) {
        const int end = smaller(k + TL_KC, n);
        float s = 0.0f;
        for (; k < end; k++)
            s = tl_fmaf(w[k * pitch], v[k], s);
        *total += s;
    }
}

/* s[c] += w[c] x for c < 4, from one pointer; and on to the next row */
INLINE const float *take_row(float *s, const float *w, int pitch, float x)
{
    for (int c = 0; c < 4; c++)
        s[c] = tl_fmaf(w[c], x, s[c]);
    w += pitch;
    TL_ONE_POINTER(w)
    return w;
}

/* total[c] += sum_k w[k*pitch + c] v[k] for c < 4 */
INLINE void add_columns(const float *w, int pitch, const float *v, int n, float *total)
{
#ifdef TL_XPULP_DOTS
    add_lines(lines_of(w, 1, 4), pitch, v, n, 4, total);
#else
    for (int left = n; left > 0; left -= TL_KC) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int k = smaller(left, TL_KC);
        for (; k >= 4; k -= 4, v += 4) {
            w = take_row(s, w, pitch, v[0]);
            w = take_row(s, w, pitch, v[1]);
            w = take_row(s, w, pitch, v[2]);
            w = take_row(s, w, pitch, v[3]);
        }
        for (; k > 0; k--)
            w = take_row(s, w, pitch, *v++);
        add_to(total, s, 4);
    }
#endif
}

/* total[c] += sum_k w[k*pitch + c] v[k] for c < 2 or 3 */
INLINE void add_few_columns(const float *w, int columns, int pitch, const float *v, int n, float *total)
{
    lines column = lines_of(w, 1, columns);
#ifdef TL_XPULP_DOTS
    add_lines(column, pitch, v, n, 3, total);
#else
    for (int left = n; left > 0; left -= TL_KC) {
        float s[3] = {0.0f, 0.0f, 0.0f};
        for (int k = smaller(left, TL_KC); k > 0; k--) {
            take(s, &column, 0, *v++, 3);
            advance(&column, pitch);
        }
        add_to(total, s, 3);
    }
#endif
}

/* v (1 - v), the slope of the sigmoid at value v; 1 - v^2 is that of tanh. */
INLINE float sigmoid_slope(float v)
{
    return v * (1.0f - v);
}

INLINE float tanh_slope(float v)
{
    return tl_fmaf(-v, v, 1.0f);
}

/* `missing` initial states in hs and cs; `saved` values a unit. */
INLINE moment moment_of(const tl_recurrent *a, int t, int b, int gates, int saved, int missing)
{
    const int n = a->hidden, row = t * a->batch + b, shift = missing && !a->reverse ? a->batch : 0;
    const int before = row - shift + (a->reverse ? a->batch : 0), after = row - shift + (a->reverse ? 0 : a->batch);
    moment m = {.before = before * n, .after = after * n};
    if (a->READ(gates))
        m.gates = a->READ(gates) + row * gates * n;
    if (a->READ(saved))
        m.saved = a->READ(saved) + row * saved * n;
    return m;
}
#endif
