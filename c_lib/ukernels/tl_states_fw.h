/* Where the scan of a recurrent layer has its states, forward; internal to c_lib/kernels. */
#ifndef TL_STATES_FW_H
#define TL_STATES_FW_H
#include "tl_brought.h"

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

/* Of rows with states in scratch: where they are. */
INLINE float *states_of(const tl_recurrent *a)
{
#ifdef TL_BROUGHT
    return behind(a);
#else
    return a->scratch + a->taken;
#endif
}

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
#endif
