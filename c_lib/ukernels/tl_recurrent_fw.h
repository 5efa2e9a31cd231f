/* The scan of a recurrent layer, forward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_FW_H
#define TL_RECURRENT_FW_H
#include "tl_moment.h"

typedef void (*units)(const tl_recurrent *a, const moment *m, int from, int to);

INLINE moment forward_moment(const tl_recurrent *a, int s, int b, int gates, int saved)
{
    moment m = moment_of(a, a->reverse ? a->steps - 1 - s : s, b, gates, saved, a->resume);
    if (a->resume && s == 0) {
        m.h_before = a->carry + b * a->hidden;
        m.c_before = m.h_before + a->batch * a->hidden;
    }
    return m;
}

/* The initial states of this core's units. */
INLINE void begin(const tl_recurrent *a, int lo, int hi)
{
    const int first = a->reverse ? a->steps * a->batch * a->hidden : 0;
    for (int u = lo; u < hi; u++) {
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

INLINE void forward(const tl_recurrent *a, int gates, int saved, units step)
{
    const int n = a->hidden;
    int lo, hi;
    tl_split(a->batch * n, 1, &lo, &hi);
    if (!a->resume)
        begin(a, lo, hi);
    for (int s = 0; s < a->steps; s++) {
        tl_barrier();
        for (int u = lo; u < hi;) {
            const int b = u / n, end = smaller(hi, (b + 1) * n);
            const moment m = forward_moment(a, s, b, gates, saved);
            step(a, &m, u - b * n, end - b * n);
            u = end;
        }
    }
    if (a->carry)
        hand_over(a, lo, hi);
}
#endif
