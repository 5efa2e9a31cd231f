/* LSTM, forward. */
#include "tl_recurrent_fw.h"

INLINE void lstm_units(const tl_recurrent *a, const moment *m, int from, int to)
{
    const int n = a->hidden;
    for (int j = from; j < to; j++) {
        float hidden[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_rows(lines_of(a->w + j * n, n * n, 4), m->h_before, n, 4, hidden);
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

void tl_lstm_fw_f32(const tl_recurrent *a)
{
    forward(a, 4, 4, lstm_units);
}
