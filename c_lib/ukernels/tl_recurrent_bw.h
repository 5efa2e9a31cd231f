/* The scan of a recurrent layer, backward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_BW_H
#define TL_RECURRENT_BW_H
#include "tl_moment.h"

/* Gradients of the gates of one step, in scratch: those of the next one go beside them. */
INLINE float *row_of_gates(const tl_recurrent *a, int s, int gates)
{
    return a->scratch + (s & 1) * a->batch * gates * a->hidden;
}

/* The steps run against the scan. */
INLINE moment first_moment(const tl_recurrent *a, int gates, int saved)
{
    const int t = a->reverse ? 0 : a->steps - 1, row = t * a->batch * gates * a->hidden;
    moment m = moment_of(a, t, gates, saved, 0);
    m.y = t * a->y_t;
    m.dgates = a->READ(dgates) + row;
    m.dhidden = (a->READ(dhidden) ? a->READ(dhidden) : a->READ(dgates)) + row;
#ifdef TL_HALVES
    m.now = row_of_gates(a, 0, gates);
#endif
    return m;
}

/* On to that of step s, with states `way` elements further on. */
INLINE void next_moment(const tl_recurrent *a, int s, int way, int gates, int saved, moment *m)
{
    (void)s;
    move_on(m, way, saved);
    m->y += a->reverse ? a->y_t : -a->y_t;
#ifdef TL_HALVES
    m->later = m->now;
    m->now = row_of_gates(a, s, gates);
#else
    m->later = m->dhidden;
#endif
    m->dgates += gates * way;
    m->dhidden += gates * way;
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
INLINE void through_gates(const tl_recurrent *a, const float *later, int gates, int j, int count, float *total)
{
    sums(a->w + j, 1, a->hidden, later, gates * a->hidden, count, total);
}

APART float tanh_of(float x)
{
    return tl_tanhf(x);
}

/* Unit j of the sample whose first one is number `row`. */
typedef void (*unit)(const tl_recurrent *a, const moment *m, int row, int j, float dh);

/* `y`: where dL/dy of that sample begins. */
INLINE void some_units(const tl_recurrent *a, const moment *m, int gates, int row, int y, int j, int count, unit slope)
{
    const float *later = m->later;
    const int by = a->y_h;
    float total[4];
    if (later)
        through_gates(a, later + gates * row, gates, j, count, total);
    y += j * by;
    int i = 0;
    do {
        /* in the order that a tile's end leaves, see initial_units */
        const float before = a->dh[row + j + i], dh = later ? before + total[i] : before;
        slope(a, m, row, j + i, with_output(a, y, dh));
        y += by;
    } while (++i < count);
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
    const int sample = lo / n, way = a->reverse ? a->batch * n : -a->batch * n;
    moment m = first_moment(a, gates, saved);
    for (int s = 0;;) {
        for (int u = lo, row = sample * n, y = m.y + sample * a->y_b; u < hi;) {
            const int next = row + n, count = smaller(smaller(hi, next) - u, 4);
            some_units(a, &m, gates, row, y, u - row, count, slope);
            u += count;
            if (u == next)
                row = next, y += a->y_b;
            TL_ONE_POINTER(u)
        }
        if (++s == a->steps)
            break;
        next_moment(a, s, way, gates, saved, &m);
        tl_barrier();
    }
    if (a->initial) {
        tl_barrier();
        initial_units(a, gates, lo, hi);
    }
}
#endif
