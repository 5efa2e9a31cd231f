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

#if defined(TL_BROUGHT) /* w comes through scratch: tl_brought.h */
#define SCAN(name) NAMED(name##_brought)
#elif defined(TL_BOTH) /* two scans at a time */
#define SCAN(name) NAMED(name##_both)
#else
#define SCAN(name) NAMED(name)
#endif
#if defined(TL_HALVES) || defined(TL_BROUGHT)
#define TL_STATES /* what goes on from step to step lies in scratch, as floats */
#endif

/* What there is at one moment, of all samples. Their units follow each other: unit j of the sample whose first one is
 * number `row` has states at row + j, gate g of G at G row + g n + j. */
typedef struct {
    const element *gates;
    element *saved, *dgates, *dhidden;
    const float *h_before, *c_before, *later; /* later: gradients of the gates of the step after, or NULL */
    float *h, *c;
    float *now;           /* what is `later` in the next step, where that lies in scratch */
    int before, after, y; /* where hs and cs have the states, and y its first element */
} moment;

INLINE int smaller(int a, int b)
{
    return a < b ? a : b;
}

enum { TL_SUMS = 6 }; /* at a time, the most */

/* Of `left` units those whose sums go together: 13 instructions a term for six, 9 for four, 7 for up to three. */
INLINE int together(int left)
{
#ifdef TL_XPULP_DOTS
    if (left == TL_SUMS)
        return TL_SUMS;
#endif
    return left == 5 || left == 6 ? 3 : smaller(left, 4);
}

/* The scan that this core takes part in, as number `id` of so many; `then`: what a single core does behind it. */
typedef struct {
    const tl_recurrent *a, *then;
    int id, cores;
} turn;

#ifdef TL_BOTH
typedef tl_recurrent_both scans;

INLINE turn first_turn(const scans *both)
{
    const int cores = tl_num_cores(), half = cores / 2, id = tl_core_id();
    if (half == 0)
        return (turn){&both->first, &both->second, 0, 1};
    return id < half ? (turn){&both->first, NULL, id, half} : (turn){&both->second, NULL, id - half, cores - half};
}
#else
typedef tl_recurrent scans;

INLINE turn first_turn(const scans *a)
{
    return (turn){a, NULL, tl_core_id(), tl_num_cores()};
}
#endif

/* This core's units of a scan. */
INLINE void own_units(const turn *t, int *lo, int *hi)
{
    tl_share(t->id, t->cores, t->a->batch * t->a->hidden, 1, lo, hi);
}

/* Of exponentials, on a core's stack. A load of each is less code than the two instructions that make it; read behind
 * `fresh`, they take no registers, and stand between operations of the float unit that two cores share. */
typedef tl_exp_numbers numbers;

INLINE void fresh(const numbers *k)
{
    __asm__ volatile("" : : "r"(k) : "memory");
}

#ifndef TL_XPULP_DOTS
/* Four neighbouring rows or columns of w, or three (then the last one is not read). */
typedef struct {
    const float *w[4];
} lines;

/* Those that there are, up to four; the last one stands for what is missing. */
INLINE lines lines_of(const float *w, int pitch, int count)
{
    const float *w1 = count > 1 ? w + pitch : w, *w2 = count > 2 ? w1 + pitch : w1;
    return (lines){{w, w1, w2, count > 3 ? w2 + pitch : w2}};
}

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

/* s[r] += sum_k row_r[k] v[k] for r < count, 3 or 4 (a literal) */
INLINE void add_rows(lines row, const float *v, int n, int count, float *s)
{
    for (; n >= 4; n -= 4) {
        take(s, &row, 0, v[0], count);
        take(s, &row, 1, v[1], count);
        take(s, &row, 2, v[2], count);
        take(s, &row, 3, v[3], count);
        advance(&row, 4);
        v += 4;
    }
    for (; n > 0; n--) {
        take(s, &row, 0, *v++, count);
        advance(&row, 1);
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

/* s[c] += sum_k w[k*pitch + c] v[k] for c < 4 */
INLINE void add_columns(const float *w, int pitch, const float *v, int n, float *s)
{
    for (; n >= 4; n -= 4, v += 4) {
        w = take_row(s, w, pitch, v[0]);
        w = take_row(s, w, pitch, v[1]);
        w = take_row(s, w, pitch, v[2]);
        w = take_row(s, w, pitch, v[3]);
    }
    for (; n > 0; n--)
        w = take_row(s, w, pitch, *v++);
}

/* s[c] += sum_k w_c[k*pitch] v[k] for c < count, 1 or 3 (a literal) */
INLINE void add_lines(lines column, int pitch, const float *v, int n, int count, float *s)
{
    for (; n > 0; n--) {
        take(s, &column, 0, *v++, count);
        advance(&column, pitch);
    }
}

INLINE void add_any(const float *w, int pitch, int step, const float *v, int n, int count, float *s)
{
    if (count == 1)
        add_lines(lines_of(w, 0, 1), step, v, n, 1, s);
    else if (count < 4 && step == 1)
        add_rows(lines_of(w, pitch, count), v, n, 3, s);
    else if (count < 4)
        add_lines(lines_of(w, pitch, count), step, v, n, 3, s);
    else if (step == 1)
        add_rows(lines_of(w, pitch, 4), v, n, 4, s);
    else
        add_columns(w, step, v, n, s);
}
#endif

/* s[r] += sum_k w[r pitch + k step] v[k] for r < count and n > 0 terms; most: a literal, as many as there are (TL_SUMS
 * or 4), or 3. Gives w behind the last one. */
INLINE const float *add_terms(const float *w, int pitch, int step, const float *v, int n, int count, int most, float *s)
{
#ifdef TL_XPULP_DOTS
    return most == TL_SUMS ? tl_xpulp_six_lines(s, w, pitch, step, v, n)
           : most == 4     ? tl_xpulp_four_lines(s, w, pitch, step, v, n)
                           : tl_xpulp_few_lines(s, w, count, pitch, step, v, n);
#else
    (void)most;
    add_any(w, pitch, step, v, n, count, s);
    return w + n * step;
#endif
}

/* The same from zero, for n <= TL_KC. */
INLINE const float *block_sums(const float *w, int pitch, int step, const float *v, int n, int count, int most,
                               float *s)
{
    for (int r = 0; r < (most < 4 ? 4 : most); r++)
        s[r] = 0.0f;
    return add_terms(w, pitch, step, v, n, count, most, s);
}

INLINE void all_blocks(const float *w, int pitch, int step, const float *v, int n, int count, int most, float *total)
{
    float s[TL_SUMS];
    w = block_sums(w, pitch, step, v, smaller(n, TL_KC), count, most, s);
    for (int r = 0; r < most; r++)
        total[r] = s[r] + 0.0f;
    for (n -= TL_KC; TL_SELDOM(n > 0); n -= TL_KC) {
        v += TL_KC;
        w = block_sums(w, pitch, step, v, smaller(n, TL_KC), count, most, s);
        for (int r = 0; r < most; r++)
            total[r] += s[r];
    }
}

/* total[r] = sum_k w[r pitch + k step] v[k] for r < count, as many as go together: rows of w (step 1) or columns (pitch
 * 1); what is behind them in `total` may be written. Apart, so that a step keeps its own in registers, of which this
 * needs many. */
APART void sums(const float *w, int pitch, int step, const float *v, int n, int count, float *total)
{
    if (TL_SELDOM(count == 4)) /* narrow layers first: their steps are short */
        all_blocks(w, pitch, step, v, n, 4, 4, total);
#ifdef TL_XPULP_DOTS
    else if (TL_SELDOM(count == TL_SUMS))
        all_blocks(w, pitch, step, v, n, TL_SUMS, TL_SUMS, total);
#endif
    else
        all_blocks(w, pitch, step, v, n, count, 3, total);
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
INLINE moment moment_of(const tl_recurrent *a, int t, int gates, int saved, int missing)
{
    const int size = a->batch * a->hidden, shift = missing && !a->reverse;
    moment m = {.before = (t - shift + (a->reverse ? 1 : 0)) * size,
                .after = (t - shift + (a->reverse ? 0 : 1)) * size};
    if (a->READ(gates))
        m.gates = a->READ(gates) + t * gates * size;
    if (a->READ(saved))
        m.saved = a->READ(saved) + t * saved * size;
    return m;
}

/* On to the moment whose states are `way` elements further on. */
INLINE void move_on(moment *m, int way, int saved)
{
    m->before += way;
    m->after += way;
    if (m->saved)
        m->saved += saved * way;
}
#endif
