/* Elman networks, backward. */
#include "tl_recurrent_bw.h"

INLINE void rnn_slope(const tl_recurrent *a, const moment *m, int j, float dh)
{
    const float h = m->h[j];
    m->dgates[j] = a->relu ? (h <= 0.0f ? 0.0f : dh) : dh * tanh_slope(h);
    m->dh[j] = 0.0f;
}

void tl_rnn_bw_f32(const tl_recurrent *a)
{
    backward(a, 1, 0, rnn_slope);
}
