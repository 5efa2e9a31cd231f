/* The scan of a recurrent layer, backward; internal to c_lib/kernels. */
#ifndef TL_RECURRENT_BW_H
#define TL_RECURRENT_BW_H
#include "tl_brought.h"

/* Gradients of the gates of one step, in scratch: those of the next one go beside them. */
INLINE float *row_of_gates(const tl_recurrent *a, int s, int gates)
{
#ifdef TL_BROUGHT
    float *first = behind(a);
#else
    float *first = a->scratch + a->taken;
#endif
    return first + (s & 1) * a->batch * gates * a->hidden;
}

/* The steps run against the scan. */
INLINE moment first_moment(const tl_recurrent *a, int gates, int saved)
{
    const int t = a->reverse ? 0 : a->steps - 1, row = t * a->batch * gates * a->hidden;
    moment m = moment_of(a, t, gates, saved, 0);
    m.y = t * a->y_t;
    m.dgates = a->READ(dgates) + row;
    m.dhidden = (a->READ(dhidden) ? a->READ(dhidden) : a->READ(dgates)) + row;
#ifdef TL_STATES
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
#ifdef TL_STATES
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
#ifdef TL_STATES
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

#ifdef TL_BROUGHT
/* What reaches the units through the gates of the step after, and behind that the sums of a block of TL_KC that goes on
 * in the next rows of w. */
INLINE float *totals(const tl_recurrent *a, int gates)
{
    return row_of_gates(a, 0, gates) + 2 * a->batch * gates * a->hidden;
}

/* Rows of w that are there, all of one block of TL_KC. */
typedef struct {
    const float *w;
    int first, count;
    int ends; /* the block of TL_KC */
} some_rows;

/* Of `count` units, 4 or, where most is 3 (a literal), fewer; v: of these rows. */
INLINE void take_rows(const some_rows *by, int j, int pitch, const float *v, int count, int most, float *total,
                      float *part)
{
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; by->first % TL_KC && i < count; i++)
        s[i] = part[i];
    add_terms(by->w + j, 1, pitch, v, by->count, count, most, s);
    for (int i = 0; i < count; i++)
        if (!by->ends)
            part[i] = s[i];
        else
            total[i] = by->first < TL_KC ? s[i] + 0.0f : total[i] + s[i];
}

/* Of this core's units; later: gates in scratch. */
APART void through_blocks(const tl_recurrent *a, feed *f, const float *later, int gates, int lo, int hi)
{
    const int n = a->hidden;
    float *total = totals(a, gates), *part = total + a->batch * n;
    for (some_rows by = {.first = 0}; by.first < f->rows; by.first += by.count) {
        by.w = next_block(a, f);
        by.count = smaller(a->rows, f->rows - by.first);
        by.ends = (by.first + by.count) % TL_KC == 0 || by.first + by.count == f->rows;
        for (int u = lo, row = lo - lo % n; u < hi;) {
            const int next = row + n, count = smaller(smaller(hi, next) - u, 4);
            const float *v = later + gates * row + by.first;
            if (count == 4)
                take_rows(&by, u - row, n, v, 4, 4, total + u, part + u);
            else
                take_rows(&by, u - row, n, v, count, 3, total + u, part + u);
            u += count;
            row = u == next ? next : row;
        }
    }
}

/* What reaches `count` units, up to four, through the gates of the step after. */
INLINE void through_gates(const tl_recurrent *a, const float *later, int gates, int row, int j, int count, float *total)
{
    const float *from = totals(a, gates) + row + j;
    (void)later;
    for (int i = 0; i < count; i++)
        total[i] = from[i];
}
#else
/* What reaches `count` units, as many as go together, through the gates of the step after. */
INLINE void through_gates(const tl_recurrent *a, const float *later, int gates, int row, int j, int count, float *total)
{
    sums(a->w + j, 1, a->hidden, later + gates * row, gates * a->hidden, count, total);
}
#endif

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
    float total[TL_SUMS];
    if (later)
        through_gates(a, later, gates, row, j, count, total);
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
#ifdef TL_STATES
    const float *d = row_of_gates(a, a->steps - 1, gates);
#else
    const int first = a->reverse ? (a->steps - 1) * a->batch : 0;
    const float *d = (a->dhidden ? a->dhidden : a->dgates) + first * gates * n;
#endif
    for (int u = lo, count; u < hi; u += count) {
        const int row = u - u % n;
        float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        count = smaller(4, smaller(hi, row + n) - u);
        through_gates(a, d, gates, row, u - row, count, total);
        for (int i = 0; i < count; i++)
            a->dh[u + i] += total[i];
    }
}

INLINE void take_part(const turn *t, int gates, int saved, unit slope)
{
    const tl_recurrent *a = t->a;
    const int n = a->hidden;
    int lo, hi;
    own_units(t, &lo, &hi);
    for (int u = lo; u < hi && !a->resume; u++) {
        a->dh[u] = a->h0 ? a->h0[u] : 0.0f;
        if (a->dc)
            a->dc[u] = a->c0 ? a->c0[u] : 0.0f;
    }
    const int sample = lo / n, first = sample * n, some = together(smaller(hi, first + n) - lo);
    const int way = a->reverse ? a->batch * n : -a->batch * n;
    moment m = first_moment(a, gates, saved);
#ifdef TL_BROUGHT
    feed f;
    open_feed(a, &f, gates, a->steps - 1 + (a->initial != 0));
#endif
    for (int s = 0;;) {
        int y = m.y + sample * a->y_b;
        for (int u = lo, row = first, count = some; u < hi; count = together(smaller(hi, row + n) - u)) {
            some_units(a, &m, gates, row, y, u - row, count, slope);
            u += count;
            TL_ONE_POINTER(u)
            if (TL_SELDOM(u == hi))
                break;
            if (u == row + n)
                row = u, y += a->y_b;
        }
        if (++s == a->steps)
            break;
        next_moment(a, s, way, gates, saved, &m);
#ifdef TL_BROUGHT
        through_blocks(a, &f, m.later, gates, lo, hi);
#else
        tl_barrier();
#endif
    }
    if (a->initial) {
#ifdef TL_BROUGHT
        through_blocks(a, &f, m.now, gates, lo, hi);
#else
        tl_barrier();
#endif
        initial_units(a, gates, lo, hi);
    }
}

INLINE void backward(const scans *s, int gates, int saved, unit slope)
{
    for (turn t = first_turn(s); t.a; t.a = t.then, t.then = NULL)
        take_part(&t, gates, saved, slope);
}
#endif
