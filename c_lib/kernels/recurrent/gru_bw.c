/* GRU, backward. */
#include "tl_recurrent_bw.h"

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

void tl_gru_bw_f32(const tl_recurrent *a)
{
    backward(a, 3, 4, gru_slope);
}
