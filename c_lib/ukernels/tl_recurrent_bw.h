/* The scan of a recurrent layer, backward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_BW_H
#define TL_RECURRENT_BW_H
#include "tl_moment.h"

/* The steps run against the scan; `s` counts them. */
INLINE moment backward_moment(const tl_recurrent *a, int s, int b, int gates, int saved)
{
    const int n = a->hidden, t = a->reverse ? s : a->steps - 1 - s, row = t * a->batch + b;
    moment m = moment_of(a, t, b, gates, saved, 0);
    m.gates = 0;
    m.y = a->y ? a->y + t * a->y_t + b * a->y_b : 0;
    m.dgates = a->dgates + row * gates * n;
    m.dhidden = (a->dhidden ? a->dhidden : a->dgates) + row * gates * n;
    m.later = s ? m.dhidden + (a->reverse ? -gates : gates) * n * a->batch : 0;
    m.dh = a->dh + b * n;
    m.dc = a->dc ? a->dc + b * n : 0;
    return m;
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
        slope(a, m, j + i, m->y ? m->y[(j + i) * a->y_h] + dh : dh);
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
    const int n = a->hidden, first = a->reverse ? (a->steps - 1) * a->batch : 0;
    const float *d = a->dhidden ? a->dhidden : a->dgates;
    for (int u = lo, count; u < hi; u += count) {
        const int b = u / n;
        float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        count = smaller(4, smaller(hi, (b + 1) * n) - u);
        through_gates(a, d + (first + b) * gates * n, gates, u - b * n, count, total);
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
