/* Elman networks, forward. */
#include "tl_recurrent_fw.h"

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

void tl_rnn_fw_f32(const tl_recurrent *a)
{
    forward(a, 1, 0, rnn_units);
}
