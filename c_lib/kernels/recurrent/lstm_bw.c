/* LSTM, backward. */
#include "tl_recurrent_bw.h"

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

void tl_lstm_bw_f32(const tl_recurrent *a)
{
    backward(a, 4, 4, lstm_slope);
}
