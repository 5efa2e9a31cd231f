/* Elman networks, forward. */
#include "tl_recurrent_fw.h"

INLINE void rnn_units(const tl_recurrent *a, const moment *m, int j, int count)
{
    const int n = a->hidden;
    float hidden[TL_UNITS] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (count > 3)
        add_rows(lines_of(a->w + j * n, n, 4), m->h_before, n, 4, hidden);
    else if (count > 1)
        add_rows(lines_of(a->w + j * n, n, count), m->h_before, n, 3, hidden);
    else
        add_line(a->w + j * n, 1, m->h_before, n, hidden);
    for (int i = 0; i < count; i++) {
        const float v = m->gates[j + i] + hidden[i];
        m->h[j + i] = a->relu ? tl_maxf(v, 0.0f) : tanh_of(v);
    }
}

void tl_rnn_fw_f32(const tl_recurrent *a)
{
    forward(a, 1, 0, rnn_units);
}
