/* The scan of a recurrent layer, forward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_FW_H
#define TL_RECURRENT_FW_H
#include "tl_brought.h"

enum { TL_UNITS = 4 }; /* that are worked on at a time */

/* `count` units from j on, at most TL_UNITS, of the sample whose first one is number `row`. */
typedef void (*units)(const tl_recurrent *a, const moment *m, const numbers *k, int row, int j, int count);

APART void sigmoids(float *x, int n, const numbers *k)
{
    const numbers own = *k; /* in registers */
    for (int i = 0; i < n; i++)
        x[i] = tl_sigmoid_by(x[i], &own);
}

/* nonnull: numbers are in memory, which the compiler need not ask. */
APART __attribute__((nonnull)) void tangents(float *x, int n, const numbers *k)
{
    for (int i = 0; i < n; i++) {
        fresh(k);
        x[i] = tl_tanh_by(x[i], k);
    }
}

/* sum[i] = x[i] + sum[i] */
INLINE void put_onto(float *sum, const float *x, int count)
{
    for (int i = 0; i < count; i++)
        sum[i] = x[i] + sum[i];
}

/* sum[i] = x[i] + sum[i], of what the input says to a gate */
INLINE void put_input(float *sum, const element *x, int count)
{
    for (int i = 0; i < count; i++)
        sum[i] = WIDENED(x[i]) + sum[i];
}

INLINE void put_down(float *to, const float *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = from[i];
}

/* For the backward pass. */
INLINE void save(element *to, const float *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = NARROWED(from[i]);
}

/* Where the sums of gate g are: of four gates the last two are exchanged, as the third one alone is no sigmoid. */
INLINE int place(int g, int gates)
{
    return TL_UNITS * (gates == 4 && g > 1 ? 5 - g : g);
}

#ifdef TL_BROUGHT
/* Where scratch has the states, and behind them w h, [batch][gates][hidden]. */
INLINE float *states_of(const tl_recurrent *a)
{
    return behind(a);
}

INLINE float *said(const tl_recurrent *a, int gates)
{
    return states_of(a) + (gates == 4 ? 3 : 2) * a->batch * a->hidden;
}

/* w h of all samples, four rows of w at a time. */
APART void products(const tl_recurrent *a, feed *f, const float *h, float *out)
{
    const int n = a->hidden, rows = f->rows;
    for (int first = 0, count; first < rows; first += count) {
        const float *w = next_block(a, f);
        count = smaller(a->rows, rows - first);
        int lo, hi;
        const int groups = (count + 3) / 4;
        tl_split(a->batch * groups, 1, &lo, &hi);
        for (int g = lo; g < hi; g++) {
            const int b = g / groups, r = 4 * (g - b * groups), some = smaller(4, count - r);
            float total[4];
            sums(w + r * n, n, 1, h + b * n, n, some, total);
            put_down(out + b * rows + first + r, total, some);
        }
    }
}

/* sum[place(g) + i] = w h of gate g and unit j + i of a sample; gates: a literal, as is a count of TL_UNITS. */
INLINE void gate_sums(const tl_recurrent *a, const moment *m, int row, int j, int count, int gates, float *sum)
{
    const float *of_unit = said(a, gates) + gates * row + j;
    (void)m;
    for (int g = 0; g < gates; g++)
        put_down(sum + place(g, gates), of_unit + g * a->hidden, count);
}
#else
INLINE float *states_of(const tl_recurrent *a)
{
    return a->scratch;
}

/* The same; gates: 3 or 4. */
INLINE void gate_sums(const tl_recurrent *a, const moment *m, int row, int j, int count, int gates, float *sum)
{
    const int n = a->hidden;
    const float *h = m->h_before + row;
#ifdef TL_XPULP_DOTS
    if (count == TL_UNITS) {
        const float *w = a->w + j * n;
        tl_xpulp_gates(sum, w, n, n, h, smaller(n, TL_KC), gates);
        for (int k = TL_KC; k < n; k += TL_KC) {
            float block[TL_UNITS * 4];
            tl_xpulp_gates(block, w + k, n, n, h + k, smaller(n - k, TL_KC), gates);
            put_onto(sum, block, TL_UNITS * gates);
        }
        return;
    }
#endif
    for (int i = 0; i < TL_UNITS; i++) {
        float own[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (i < count)
            sums(a->w + (j + i) * n, n * n, 1, h, n, gates, own);
        for (int g = 0; g < gates; g++)
            sum[place(g, gates) + i] = own[g];
    }
}
#endif

#ifdef TL_STATES
/* Scratch has the states of h before and after a step, which exchange their places, and that of c. */
INLINE void put_scratch(const tl_recurrent *a, int s, moment *m)
{
    const int size = a->batch * a->hidden;
    m->h_before = states_of(a) + (s & 1) * size;
    m->h = states_of(a) + (~s & 1) * size;
}

INLINE moment first_moment(const tl_recurrent *a, int gates, int saved)
{
    moment m = moment_of(a, a->reverse ? a->steps - 1 : 0, gates, saved, a->resume);
    put_scratch(a, 0, &m);
    m.c_before = m.c = states_of(a) + 2 * a->batch * a->hidden;
    return m;
}

INLINE void next_states(const tl_recurrent *a, int s, int way, moment *m)
{
    (void)way;
    put_scratch(a, s, m);
}

/* `count` states of h as they lie in memory, from element `at` on. */
INLINE void put_states(const tl_recurrent *a, int at, const float *h, int count)
{
#ifdef TL_HALVES
    if (a->hs_f16) {
        save(a->hs_f16 + at, h, count);
        return;
    }
#endif
    put_down(a->hs + at, h, count);
}

INLINE void keep_states(const tl_recurrent *a, const moment *m, int at, const float *h, int count)
{
    put_states(a, m->after + at, h, count);
}

INLINE void keep_cells(const tl_recurrent *a, const moment *m, int at, const float *c, int count)
{
    save(a->READ(cs) + m->after + at, c, count);
}

/* The initial states of this core's units. */
INLINE void begin(const tl_recurrent *a, int lo, int hi)
{
    const int size = a->batch * a->hidden, first = a->reverse ? a->steps * size : 0;
    const float *h0 = a->resume ? a->carry : a->h0, *c0 = a->resume ? a->carry + size : a->c0;
    put_down(states_of(a) + lo, h0 + lo, hi - lo);
    if (!a->resume)
        put_states(a, first + lo, h0 + lo, hi - lo);
    if (!a->READ(cs))
        return;
    put_down(states_of(a) + 2 * size + lo, c0 + lo, hi - lo);
    if (!a->resume)
        save(a->READ(cs) + first + lo, c0 + lo, hi - lo);
}

/* What the next tile starts from. */
INLINE void hand_over(const tl_recurrent *a, int lo, int hi)
{
    const int size = a->batch * a->hidden;
    put_down(a->carry + lo, states_of(a) + (a->steps & 1) * size + lo, hi - lo);
    if (a->READ(cs))
        put_down(a->carry + size + lo, states_of(a) + 2 * size + lo, hi - lo);
}
#else
/* They are where they stay. */
INLINE void keep_states(const tl_recurrent *a, const moment *m, int at, const float *h, int count)
{
    (void)a, (void)m, (void)at, (void)h, (void)count;
}

INLINE void keep_cells(const tl_recurrent *a, const moment *m, int at, const float *c, int count)
{
    keep_states(a, m, at, c, count);
}

INLINE moment first_moment(const tl_recurrent *a, int gates, int saved)
{
    moment m = moment_of(a, a->reverse ? a->steps - 1 : 0, gates, saved, a->resume);
    m.h_before = a->resume ? a->carry : a->hs + m.before;
    m.h = a->hs + m.after;
    if (a->cs) {
        m.c_before = a->resume ? a->carry + a->batch * a->hidden : a->cs + m.before;
        m.c = a->cs + m.after;
    }
    return m;
}

INLINE void next_states(const tl_recurrent *a, int s, int way, moment *m)
{
    (void)s;
    m->h_before = m->h;
    m->h += way;
    if (!a->cs)
        return;
    m->c_before = m->c;
    m->c += way;
}

/* The initial states of this core's units. */
INLINE void begin(const tl_recurrent *a, int lo, int hi)
{
    const int first = a->reverse ? a->steps * a->batch * a->hidden : 0;
    for (int u = lo; u < hi && !a->resume; u++) {
        a->hs[first + u] = a->h0[u];
        if (a->cs)
            a->cs[first + u] = a->c0[u];
    }
}

/* What the next tile starts from; the barrier: a single step still reads the carry. */
INLINE void hand_over(const tl_recurrent *a, int lo, int hi)
{
    const int size = a->batch * a->hidden, last = a->reverse ? 0 : (a->steps - a->resume) * size;
    tl_barrier();
    for (int u = lo; u < hi; u++) {
        a->carry[u] = a->hs[last + u];
        if (a->cs)
            a->carry[size + u] = a->cs[last + u];
    }
}
#endif

INLINE void forward(const tl_recurrent *a, int gates, int saved, units step)
{
    const int n = a->hidden;
    int lo, hi;
    tl_split(a->batch * n, 1, &lo, &hi);
    begin(a, lo, hi);
    const int first = lo - lo % n, way = a->reverse ? -a->batch * n : a->batch * n;
    const numbers k = tl_exp_numbers_();
    moment m = first_moment(a, gates, saved);
#ifdef TL_BROUGHT
    feed f;
    open_feed(a, &f, gates, a->steps);
#endif
    for (int s = 0;;) {
#ifdef TL_BROUGHT
        products(a, &f, m.h_before, said(a, gates));
#endif
        tl_barrier();
        for (int u = lo, row = first; u < hi;) {
            const int next = row + n, count = smaller(smaller(hi, next) - u, TL_UNITS);
            step(a, &m, &k, row, u - row, count);
            u += count;
            row = u == next ? next : row;
            TL_ONE_POINTER(u)
        }
        if (++s == a->steps)
            break;
        m.gates += gates * way;
        move_on(&m, way, saved);
        next_states(a, s, way, &m);
    }
    if (a->carry)
        hand_over(a, lo, hi);
}
#endif
