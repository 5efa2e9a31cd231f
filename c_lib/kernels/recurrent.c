/* Recurrent layers: scans over time.
 *
 * Cores share the batch*hidden units of a step and meet at a barrier between steps. Backward, a unit's gradient is a
 * sum over the rows of w, of the step that was done before, down the unit's column. Sums run in index order from zero
 * in blocks of at most 64; the blocks add up in order, and the rest of the terms joins at the end. */
#include "tl_math.h"
#include "tl_recurrent.h"

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline)) /* called once per gate: one copy of the code is enough */
#define BLOCK 64

/* What the units of one sample see at one moment. */
typedef struct {
    const float *gates, *h_before, *c_before, *y, *later; /* later: gradients of the gates of the step after, or NULL */
    float *h, *c, *saved, *dgates, *dhidden, *dh, *dc;
} moment;

typedef void (*units)(const tl_recurrent *a, const moment *m, int from, int to);

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

/* Four neighbouring rows or columns of w, or three (then w3 is not read). */
typedef struct {
    const float *w0, *w1, *w2, *w3;
} lines;

/* s[r] += w_r[k] x */
INLINE void take(float *s, const lines *w, int k, float x, int count)
{
    s[0] = tl_fmaf(w->w0[k], x, s[0]);
    s[1] = tl_fmaf(w->w1[k], x, s[1]);
    s[2] = tl_fmaf(w->w2[k], x, s[2]);
    if (count == 4)
        s[3] = tl_fmaf(w->w3[k], x, s[3]);
}

INLINE void advance(lines *w, int step)
{
    w->w0 += step;
    w->w1 += step;
    w->w2 += step;
    w->w3 += step;
}

INLINE void add_to(float *total, const float *s, int count)
{
    for (int r = 0; r < count; r++)
        total[r] += s[r];
}

/* total[r] += sum_k w[r*pitch + k] v[k] for r < count, 3 or 4 (a literal) */
INLINE void add_rows(const float *w, int pitch, const float *v, int n, int count, float *total)
{
    lines row = {w, w + pitch, w + 2 * pitch, w + (count - 1) * pitch};
    for (int left = n; left > 0; left -= BLOCK) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int k = smaller(left, BLOCK);
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
}

/* total += sum_k w[k*pitch] v[k] */
INLINE void add_line(const float *w, int pitch, const float *v, int n, float *total)
{
    for (int k = 0; k < n;) {
        const int end = smaller(k + BLOCK, n);
        float s = 0.0f;
        for (; k < end; k++)
            s = tl_fmaf(w[k * pitch], v[k], s);
        *total += s;
    }
}

/* total[c] += sum_k w[k*pitch + c] v[k] for c < 4 */
INLINE void add_columns(const float *w, int pitch, const float *v, int n, float *total)
{
    lines column = {w, w + 1, w + 2, w + 3};
    for (int left = n; left > 0; left -= BLOCK) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int k = smaller(left, BLOCK);
        for (; k >= 2; k -= 2) {
            take(s, &column, 0, v[0], 4);
            take(s, &column, pitch, v[1], 4);
            advance(&column, 2 * pitch);
            v += 2;
        }
        if (k) {
            take(s, &column, 0, *v++, 4);
            advance(&column, pitch);
        }
        add_to(total, s, 4);
    }
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

/* ---- forward */

/* `missing` initial states in hs and cs; `saved` values a unit. */
INLINE moment moment_of(const tl_recurrent *a, int t, int b, int gates, int saved, int missing)
{
    const int n = a->hidden, row = t * a->batch + b, shift = missing && !a->reverse ? a->batch : 0;
    const int before = row - shift + (a->reverse ? a->batch : 0), after = row - shift + (a->reverse ? 0 : a->batch);
    moment m = {.gates = a->gates + row * gates * n, .h_before = a->hs + before * n, .h = a->hs + after * n};
    if (a->cs) {
        m.c_before = a->cs + before * n;
        m.c = a->cs + after * n;
    }
    if (a->saved)
        m.saved = a->saved + row * saved * n;
    return m;
}

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

INLINE void rnn_value(const tl_recurrent *a, const moment *m, int j, float hidden)
{
    const float v = m->gates[j] + hidden;
    m->h[j] = a->relu ? tl_maxf(v, 0.0f) : tanh_of(v);
}

INLINE void rnn_units(const tl_recurrent *a, const moment *m, int from, int to)
{
    const int n = a->hidden;
    int j = from;
    for (; j + 4 <= to; j += 4) {
        float hidden[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_rows(a->w + j * n, n, m->h_before, n, 4, hidden);
        for (int i = 0; i < 4; i++)
            rnn_value(a, m, j + i, hidden[i]);
    }
    for (; j < to; j++) {
        float hidden = 0.0f;
        add_line(a->w + j * n, 1, m->h_before, n, &hidden);
        rnn_value(a, m, j, hidden);
    }
}

INLINE void lstm_units(const tl_recurrent *a, const moment *m, int from, int to)
{
    const int n = a->hidden;
    for (int j = from; j < to; j++) {
        float hidden[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_rows(a->w + j * n, n * n, m->h_before, n, 4, hidden);
        const float *x = m->gates + j;
        const float i = sigmoid(x[0] + hidden[0]), f = sigmoid(x[n] + hidden[1]);
        const float g = tanh_of(x[2 * n] + hidden[2]), o = sigmoid(x[3 * n] + hidden[3]);
        const float c = tl_fmaf(f, m->c_before[j], i * g);
        m->c[j] = c;
        m->h[j] = o * tanh_of(c);
        if (m->saved) {
            float *saved = m->saved + j;
            saved[0] = i;
            saved[n] = f;
            saved[2 * n] = g;
            saved[3 * n] = o;
        }
    }
}

INLINE void gru_units(const tl_recurrent *a, const moment *m, int from, int to)
{
    const int n = a->hidden;
    for (int j = from; j < to; j++) {
        float hidden[3] = {0.0f, 0.0f, 0.0f};
        add_rows(a->w + j * n, n * n, m->h_before, n, 3, hidden);
        for (int k = 0; a->bias && k < 3; k++)
            hidden[k] += a->bias[k * n + j];
        const float *x = m->gates + j;
        const float r = sigmoid(x[0] + hidden[0]), z = sigmoid(x[n] + hidden[1]);
        const float value = tanh_of(tl_fmaf(r, hidden[2], x[2 * n]));
        m->h[j] = tl_fmaf(z, m->h_before[j] - value, value);
        if (m->saved) {
            float *saved = m->saved + j;
            saved[0] = r;
            saved[n] = z;
            saved[2 * n] = value;
            saved[3 * n] = hidden[2];
        }
    }
}

void tl_rnn_fw_f32(const tl_recurrent *a)
{
    forward(a, 1, 0, rnn_units);
}

void tl_lstm_fw_f32(const tl_recurrent *a)
{
    forward(a, 4, 4, lstm_units);
}

void tl_gru_fw_f32(const tl_recurrent *a)
{
    forward(a, 3, 4, gru_units);
}

/* ---- backward */

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

/* What reaches `count` (1 or 4) units through the gates of the step after. */
INLINE void through_gates(const tl_recurrent *a, const float *later, int gates, int j, int count, float *total)
{
    const int n = a->hidden;
    if (count == 4)
        add_columns(a->w + j, n, later, gates * n, total);
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
    int j = from;
    for (; j + 4 <= to; j += 4)
        some_units(a, m, gates, j, 4, slope);
    for (; j < to; j++)
        some_units(a, m, gates, j, 1, slope);
}

/* What a step before the first would start from: dL/dh0, or what the next tile gets. */
INLINE void initial_units(const tl_recurrent *a, int gates, int lo, int hi)
{
    const int n = a->hidden, first = a->reverse ? (a->steps - 1) * a->batch : 0;
    const float *d = a->dhidden ? a->dhidden : a->dgates;
    for (int u = lo; u < hi; u++) {
        float total = 0.0f;
        through_gates(a, d + (first + u / n) * gates * n, gates, u % n, 1, &total);
        a->dh[u] += total;
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

INLINE void rnn_slope(const tl_recurrent *a, const moment *m, int j, float dh)
{
    const float h = m->h[j];
    m->dgates[j] = a->relu ? (h <= 0.0f ? 0.0f : dh) : dh * tanh_slope(h);
    m->dh[j] = 0.0f;
}

INLINE void lstm_slope(const tl_recurrent *a, const moment *m, int j, float dh)
{
    const int n = a->hidden;
    const float *saved = m->saved + j;
    const float i = saved[0], f = saved[n], g = saved[2 * n], o = saved[3 * n], tc = tanh_of(m->c[j]);
    const float dc = tl_fmaf(dh * o, tanh_slope(tc), m->dc[j]);
    float *d = m->dgates + j;
    d[0] = dc * g * sigmoid_slope(i);
    d[n] = dc * m->c_before[j] * sigmoid_slope(f);
    d[2 * n] = dc * i * tanh_slope(g);
    d[3 * n] = dh * tc * sigmoid_slope(o);
    m->dc[j] = dc * f;
    m->dh[j] = 0.0f;
}

INLINE void gru_slope(const tl_recurrent *a, const moment *m, int j, float dh)
{
    const int n = a->hidden;
    const float *saved = m->saved + j;
    const float r = saved[0], z = saved[n], value = saved[2 * n], hidden = saved[3 * n];
    const float dn = dh * (1.0f - z) * tanh_slope(value);
    const float dr = dn * hidden * sigmoid_slope(r), dz = dh * (m->h_before[j] - value) * sigmoid_slope(z);
    float *d = m->dgates + j, *e = m->dhidden + j;
    d[0] = e[0] = dr;
    d[n] = e[n] = dz;
    d[2 * n] = dn;
    e[2 * n] = dn * r;
    m->dh[j] = dh * z;
}

void tl_rnn_bw_f32(const tl_recurrent *a)
{
    backward(a, 1, 0, rnn_slope);
}

void tl_lstm_bw_f32(const tl_recurrent *a)
{
    backward(a, 4, 4, lstm_slope);
}

void tl_gru_bw_f32(const tl_recurrent *a)
{
    backward(a, 3, 4, gru_slope);
}
