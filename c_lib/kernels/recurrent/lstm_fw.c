/* LSTM, forward. */
#include "tl_recurrent_fw.h"

INLINE void some_units(const tl_recurrent *a, const moment *m, int j, int count)
{
    const int n = a->hidden;
    const float *c_before = m->c_before + j;
    float sum[4 * TL_UNITS], value[TL_UNITS], *forget = sum + TL_UNITS, *g = forget + TL_UNITS, *o = g + TL_UNITS;
    float *h = m->h + j;
    gate_sums(a, m->h_before, j, count, 4, sum);
    for (int gate = 0; gate < 4; gate++)
        put_onto(sum + gate * TL_UNITS, m->gates + gate * n + j, count);
    sigmoids(sum, TL_UNITS + count);
    tangents(g, count);
    sigmoids(o, count);
    for (int i = 0; i < count; i++)
        value[i] = tl_fmaf(forget[i], c_before[i], sum[i] * g[i]);
    put_down(m->c + j, value, count);
    tangents(value, count);
    for (int i = 0; i < count; i++)
        h[i] = o[i] * value[i];
    for (int gate = 0; m->saved && gate < 4; gate++)
        put_down(m->saved + gate * n + j, sum + gate * TL_UNITS, count);
}

INLINE void lstm_units(const tl_recurrent *a, const moment *m, int j, int count)
{
    if (count == TL_UNITS)
        some_units(a, m, j, TL_UNITS);
    else
        some_units(a, m, j, count);
}

void tl_lstm_fw_f32(const tl_recurrent *a)
{
    forward(a, 4, 4, lstm_units);
}
