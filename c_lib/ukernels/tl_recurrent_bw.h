/* The scan of a recurrent layer, backward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_BW_H
#define TL_RECURRENT_BW_H
#include "tl_moment.h"

/* Gradients of the gates of one step, in scratch: those of the next one go beside them. */
INLINE float *row_of_gates(const tl_recurrent *a, int s, int gates)
{
    return a->scratch + (s & 1) * a->batch * gates * a->hidden;
}

/* The steps run against the scan; `s` counts them. */
INLINE moment backward_moment(const tl_recurrent *a, int s, int b, int gates, int saved)
{
    const int n = a->hidden, t = a->reverse ? s : a->steps - 1 - s, row = t * a->batch + b;
    moment m = moment_of(a, t, b, gates, saved, 0);
    m.y = t * a->y_t + b * a->y_b;
    m.dgates = a->READ(dgates) + row * gates * n;
    m.dhidden = (a->READ(dhidden) ? a->READ(dhidden) : a->READ(dgates)) + row * gates * n;
#ifdef TL_HALVES
    m.now = row_of_gates(a, s, gates) + b * gates * n;
    m.later = s ? row_of_gates(a, s - 1, gates) + b * gates * n : 0;
#else
    m.later = s ? m.dhidden + (a->reverse ? -gates : gates) * n * a->batch : 0;
#endif
    m.dh = a->dh + b * n;
    m.dc = a->dc ? a->dc + b * n : 0;
    return m;
}

/* The gradient of a gate that goes on to the step before. */
INLINE void put_gate(const moment *m, int at, float value)
{
    m->dhidden[at] = NARROWED(value);
#ifdef TL_HALVES
    m->now[at] = value;
#endif
}

/* A state of h. */
INLINE float state(const tl_recurrent *a, int at)
{
#ifdef TL_HALVES
    if (a->hs_f16)
        return tl_from_half(a->hs_f16[at]);
#endif
    return a->hs[at];
}

/* With what comes from outside. */
INLINE float with_output(const tl_recurrent *a, int at, float dh)
{
#ifdef TL_HALVES
    if (a->y_f16)
        return tl_from_half(a->y_f16[at]) + dh;
#endif
    return a->y ? a->y[at] + dh : dh;
}

/* What reaches `count` units, up to four, through the gates of the step after. */
APART void through_gates(const tl_recurrent *a, const float *later, int gates, int j, int count, float *total)
{
    const int n = a->hidden;
    if (count == 4)
        add_columns(a->w + j, n, later, gates * n, total);
    else if (count > 1)
        add_few_columns(a->w + j, count, n, later, gates * n, total);
    else
        add_line(a->w + j, n, later, gates * n, total);
}

typedef void (*unit)(const tl_recurrent *a, const moment *m, int j, float dh);

INLINE void some_units(const tl_recurrent *a, const moment *m, int gates, int j, int count, unit slope)
{
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (m->later)
        through_gates(a, m->later, gates, j, count, total);
    for (int i = 0; i < count; i++) {
        /* in the order that a tile's end leaves, see initial_units */
        const float dh = m->later ? m->dh[j + i] + total[i] : m->dh[j + i];
        slope(a, m, j + i, with_output(a, m->y + (j + i) * a->y_h, dh));
    }
}

INLINE void backward_step(const tl_recurrent *a, const moment *m, int gates, int from, int to, unit slope)
{
    for (int j = from; j < to; j += 4)
        some_units(a, m, gates, j, smaller(4, to - j), slope);
}

/* What a step before the first would start from: dL/dh0, or what the next tile gets. */
INLINE void initial_units(const tl_recurrent *a, int gates, int lo, int hi)
{
    const int n = a->hidden;
#ifdef TL_HALVES
    const float *d = row_of_gates(a, a->steps - 1, gates);
#else
    const int first = a->reverse ? (a->steps - 1) * a->batch : 0;
    const float *d = (a->dhidden ? a->dhidden : a->dgates) + first * gates * n;
#endif
    for (int u = lo, count; u < hi; u += count) {
        const int b = u / n;
        float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        count = smaller(4, smaller(hi, (b + 1) * n) - u);
        through_gates(a, d + b * gates * n, gates, u - b * n, count, total);
        for (int i = 0; i < count; i++)
            a->dh[u + i] += total[i];
    }
}

INLINE void backward(const tl_recurrent *a, int gates, int saved, unit slope)
{
    const int n = a->hidden;
    int lo, hi;
    tl_split(a->batch * n, 1, &lo, &hi);
    for (int u = lo; u < hi && !a->resume; u++) {
        a->dh[u] = a->h0 ? a->h0[u] : 0.0f;
        if (a->dc)
            a->dc[u] = a->c0 ? a->c0[u] : 0.0f;
    }
    for (int s = 0; s < a->steps; s++) {
        if (s)
            tl_barrier();
        for (int u = lo; u < hi;) {
            const int b = u / n, end = smaller(hi, (b + 1) * n);
            const moment m = backward_moment(a, s, b, gates, saved);
            backward_step(a, &m, gates, u - b * n, end - b * n, slope);
            u = end;
        }
    }
    if (a->initial) {
        tl_barrier();
        initial_units(a, gates, lo, hi);
    }
}
#endif
