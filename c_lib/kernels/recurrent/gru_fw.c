/* GRU, forward. */
#include "tl_recurrent_fw.h"

INLINE void some_units(const tl_recurrent *a, const moment *m, int j, int count)
{
    const int n = a->hidden;
    const float *x = m->gates + j, *before = m->h_before + j;
    float sum[3 * TL_UNITS], value[TL_UNITS], *z = sum + TL_UNITS, *hidden = z + TL_UNITS, *h = m->h + j;
    gate_sums(a, m->h_before, j, count, 3, sum);
    for (int g = 0; a->bias && g < 3; g++)
        put_onto(sum + g * TL_UNITS, a->bias + g * n + j, count);
    put_onto(sum, x, count);
    put_onto(z, x + n, count);
    sigmoids(sum, TL_UNITS + count);
    for (int i = 0; i < count; i++)
        value[i] = tl_fmaf(sum[i], hidden[i], x[2 * n + i]);
    tangents(value, count);
    for (int i = 0; i < count; i++)
        h[i] = tl_fmaf(z[i], before[i] - value[i], value[i]);
    if (m->saved) {
        put_down(m->saved + j, sum, count);
        put_down(m->saved + j + n, z, count);
        put_down(m->saved + j + 2 * n, value, count);
        put_down(m->saved + j + 3 * n, hidden, count);
    }
}

INLINE void gru_units(const tl_recurrent *a, const moment *m, int j, int count)
{
    if (count == TL_UNITS)
        some_units(a, m, j, TL_UNITS);
    else
        some_units(a, m, j, count);
}

void tl_gru_fw_f32(const tl_recurrent *a)
{
    forward(a, 3, 4, gru_units);
}
