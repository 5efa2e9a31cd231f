/* The scan of a recurrent layer, forward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_FW_H
#define TL_RECURRENT_FW_H
#include "tl_states_fw.h"

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

/* Where the sums of gate g are: of four gates the last two are exchanged, as the third one alone is no sigmoid. */
INLINE int place(int g, int gates)
{
    return TL_UNITS * (gates == 4 && g > 1 ? 5 - g : g);
}

#ifdef TL_BROUGHT
/* w h, [batch][gates][hidden], behind the states. */
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

/* Of `left` units those that are worked on at a time. */
INLINE int group(int left, int gates)
{
    return gates == 1 ? together(left) : smaller(left, TL_UNITS);
}

INLINE void take_part(const turn *t, int gates, int saved, units step)
{
    const tl_recurrent *a = t->a;
    const int n = a->hidden;
    int lo, hi;
    own_units(t, &lo, &hi);
    begin(a, lo, hi);
    const int first = lo - lo % n, some = group(smaller(hi, first + n) - lo, gates);
    const int way = a->reverse ? -a->batch * n : a->batch * n;
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
        for (int u = lo, row = first, count = some; u < hi; count = group(smaller(hi, row + n) - u, gates)) {
            step(a, &m, &k, row, u - row, count);
            u += count;
            TL_ONE_POINTER(u)
            if (TL_SELDOM(u == hi))
                break;
            row = u == row + n ? u : row;
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

INLINE void forward(const scans *s, int gates, int saved, units step)
{
    for (turn t = first_turn(s); t.a; t.a = t.then, t.then = NULL)
        take_part(&t, gates, saved, step);
}
#endif
