/* Outputs of an input gradient that no tap reaches. */
#include "tl_gather.h"

void tl_conv_fill(const tl_gather *g)
{
    const int outs = g->groups * g->rows, height = g->y.count;
    int lo, hi;
    tl_split_among(g->team, g->n * outs * height, 1, &lo, &hi);
    for (; lo < hi; ++lo) {
        const int plane = lo / height, n = plane / outs, o = plane - n * outs;
        const int row = g->y.out0 + (lo - plane * height) * g->y.out_step;
        const float start = (g->bias ? g->bias[o] : 0.0f) + 0.0f;
        const int at = n * g->out_p.n + o * g->out_p.c + row * g->out_p.h + g->x.out0;
        float *to = g->out + at;
        if (g->out_f16)
            for (int i = 0; i < g->x.count; ++i)
                g->out_f16[at + i * g->x.out_step] = tl_to_half(start);
        else if (g->accumulate)
            for (int left = g->x.count; left > 0; --left, to += g->x.out_step)
                *to += 0.0f;
        else
            for (int left = g->x.count; left > 0; --left, to += g->x.out_step)
                *to = start;
    }
}
