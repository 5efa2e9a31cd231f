/* GRU, forward. */
#include "tl_recurrent_fw.h"

INLINE void gru_units(const tl_recurrent *a, const moment *m, int from, int to)
{
    const int n = a->hidden;
    for (int j = from; j < to; j++) {
        float hidden[3] = {0.0f, 0.0f, 0.0f};
        add_rows(lines_of(a->w + j * n, n * n, 3), m->h_before, n, 3, hidden);
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

void tl_gru_fw_f32(const tl_recurrent *a)
{
    forward(a, 3, 4, gru_units);
}
