/* The scan of recurrent layers, one unit at a time, on one core: what every kernel of it gives, bit by bit. Whole
 * scans: that tiles give the same is for others to show. */
#include "tl_math.h"
#include "tl_recurrent.h"
#include "sum.h"

/* One unit j of one sample b at one time t, in a layer of n units and so many gates. */
typedef struct {
    const tl_recurrent *a;
    int gates, n, t, b, j;
} unit;

/* [time][batch][gates * hidden] */
static int gate(unit u, int t, int k)
{
    return (t * u.a->batch + u.b) * u.gates * u.n + k * u.n + u.j;
}

/* [time][batch][4 * hidden] */
static float *saved(unit u, int k)
{
    return u.a->saved + (u.t * u.a->batch + u.b) * 4 * u.n + k * u.n + u.j;
}

/* Of the state before (0) or after (1) this time. */
static float *state(unit u, float *all, int after)
{
    return all + ((u.t + (after ^ u.a->reverse)) * u.a->batch + u.b) * u.n + u.j;
}

/* What the state before says to gate k. */
static float heard(unit u, int k)
{
    sum s = {0, 0, 0};
    const float *h = state(u, u.a->hs, 0) - u.j;
    for (int i = 0; i < u.n; i++)
        add(&s, u.a->w[(k * u.n + u.j) * u.n + i], h[i]);
    return end(&s);
}

static void rnn(unit u)
{
    const float v = u.a->gates[gate(u, u.t, 0)] + heard(u, 0);
    *state(u, u.a->hs, 1) = u.a->relu ? tl_maxf(v, 0) : tl_tanhf(v);
}

static void keep(unit u, float first, float second, float third, float fourth)
{
    if (u.a->saved)
        *saved(u, 0) = first, *saved(u, 1) = second, *saved(u, 2) = third, *saved(u, 3) = fourth;
}

static void lstm(unit u)
{
    const float *x = u.a->gates;
    const float i = tl_sigmoidf(x[gate(u, u.t, 0)] + heard(u, 0)), f = tl_sigmoidf(x[gate(u, u.t, 1)] + heard(u, 1));
    const float g = tl_tanhf(x[gate(u, u.t, 2)] + heard(u, 2)), o = tl_sigmoidf(x[gate(u, u.t, 3)] + heard(u, 3));
    const float c = __builtin_fmaf(f, *state(u, u.a->cs, 0), i * g);
    *state(u, u.a->cs, 1) = c;
    *state(u, u.a->hs, 1) = o * tl_tanhf(c);
    keep(u, i, f, g, o);
}

static void gru(unit u)
{
    const float *x = u.a->gates, before = *state(u, u.a->hs, 0);
    float own[3];
    for (int k = 0; k < 3; k++)
        own[k] = u.a->bias ? heard(u, k) + u.a->bias[k * u.n + u.j] : heard(u, k);
    const float r = tl_sigmoidf(x[gate(u, u.t, 0)] + own[0]), z = tl_sigmoidf(x[gate(u, u.t, 1)] + own[1]);
    const float value = tl_tanhf(__builtin_fmaf(r, own[2], x[gate(u, u.t, 2)]));
    *state(u, u.a->hs, 1) = __builtin_fmaf(z, before - value, value);
    keep(u, r, z, value, own[2]);
}

/* v (1 - v) and 1 - v v: slopes of the sigmoid and of tanh where they have the value v. */
static float of_sigmoid(float v)
{
    return v * (1 - v);
}

static float of_tanh(float v)
{
    return __builtin_fmaf(-v, v, 1);
}

/* The slopes of a unit's gates, from that of its h; dh and dc become what the time before gets directly. */
static void rnn_back(unit u, float dh, float *direct, float *dc)
{
    const float h = *state(u, u.a->hs, 1);
    (void)dc;
    u.a->dgates[gate(u, u.t, 0)] = u.a->relu ? (h <= 0 ? 0 : dh) : dh * of_tanh(h);
    *direct = 0;
}

static void lstm_back(unit u, float dh, float *direct, float *dc)
{
    const float i = *saved(u, 0), f = *saved(u, 1), g = *saved(u, 2), o = *saved(u, 3);
    const float c = tl_tanhf(*state(u, u.a->cs, 1)), slope = __builtin_fmaf(dh * o, of_tanh(c), *dc);
    u.a->dgates[gate(u, u.t, 0)] = slope * g * of_sigmoid(i);
    u.a->dgates[gate(u, u.t, 1)] = slope * *state(u, u.a->cs, 0) * of_sigmoid(f);
    u.a->dgates[gate(u, u.t, 2)] = slope * i * of_tanh(g);
    u.a->dgates[gate(u, u.t, 3)] = dh * c * of_sigmoid(o);
    *dc = slope * f, *direct = 0;
}

static void gru_back(unit u, float dh, float *direct, float *dc)
{
    const float r = *saved(u, 0), z = *saved(u, 1), value = *saved(u, 2), own = *saved(u, 3);
    const float dn = dh * (1 - z) * of_tanh(value), dr = dn * own * of_sigmoid(r);
    const float dz = dh * (*state(u, u.a->hs, 0) - value) * of_sigmoid(z), d[3] = {dr, dz, dn}, e[3] = {dr, dz, dn * r};
    (void)dc;
    for (int k = 0; k < 3; k++)
        u.a->dgates[gate(u, u.t, k)] = d[k], u.a->dhidden[gate(u, u.t, k)] = e[k];
    *direct = dh * z;
}

static void forward(const tl_recurrent *a, int gates, void (*step)(unit))
{
    const int size = a->batch * a->hidden, first = a->reverse ? a->steps * size : 0;
    for (int i = 0; i < size; i++) {
        a->hs[first + i] = a->h0[i];
        if (a->cs)
            a->cs[first + i] = a->c0[i];
    }
    for (int s = 0; s < a->steps; s++)
        for (int i = 0; i < size; i++)
            step((unit){a, gates, a->hidden, a->reverse ? a->steps - 1 - s : s, i / a->hidden, i % a->hidden});
    for (int i = 0; i < size && a->carry; i++) {
        a->carry[i] = a->hs[a->reverse ? i : a->steps * size + i];
        if (a->cs)
            a->carry[size + i] = a->cs[a->reverse ? i : a->steps * size + i];
    }
}

/* What the gates at time t say to the unit's h before them. */
static float said(unit u, int t)
{
    sum s = {0, 0, 0};
    const float *d = u.a->dhidden ? u.a->dhidden : u.a->dgates;
    for (int k = 0; k < u.gates * u.n; k++)
        add(&s, u.a->w[k * u.n + u.j], d[(t * u.a->batch + u.b) * u.gates * u.n + k]);
    return end(&s);
}

static void backward(const tl_recurrent *a, int gates, void (*step)(unit, float, float *, float *))
{
    const int size = a->batch * a->hidden, way = a->reverse ? 1 : -1, start = a->reverse ? 0 : a->steps - 1;
    for (int s = 0; s <= a->steps; s++)
        for (int i = 0; i < size; i++) {
            const unit u = {a, gates, a->hidden, start + s * way, i / a->hidden, i % a->hidden};
            if (s == 0) {
                a->dh[i] = a->h0 ? a->h0[i] : 0;
                if (a->dc)
                    a->dc[i] = a->c0 ? a->c0[i] : 0;
            }
            if (s && (s < a->steps || a->initial))
                a->dh[i] += said(u, u.t - way);
            if (s == a->steps)
                continue;
            const float own = a->y ? a->y[u.t * a->y_t + u.b * a->y_b + u.j * a->y_h] + a->dh[i] : a->dh[i];
            step(u, own, &a->dh[i], a->dc ? &a->dc[i] : 0);
        }
}

void reference_rnn_fw(const tl_recurrent *a)
{
    forward(a, 1, rnn);
}

void reference_lstm_fw(const tl_recurrent *a)
{
    forward(a, 4, lstm);
}

void reference_gru_fw(const tl_recurrent *a)
{
    forward(a, 3, gru);
}

void reference_rnn_bw(const tl_recurrent *a)
{
    backward(a, 1, rnn_back);
}

void reference_lstm_bw(const tl_recurrent *a)
{
    backward(a, 4, lstm_back);
}

void reference_gru_bw(const tl_recurrent *a)
{
    backward(a, 3, gru_back);
}
