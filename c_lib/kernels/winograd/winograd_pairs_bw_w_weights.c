/* Products of a row of the transformed 4 x 4 of halves, and what they add to the gradient of the weight. */
#define TL_HALVES
#include "tl_winograd_bw_w_row.h"
#include "tl_winograd_pairs_bw_w.h"
#include "tl_winograd_pairs_sums.h"

/* Kernels of up to 4 x 4 channels, from w on. */
static inline __attribute__((always_inline)) void add(const tl_conv2d *a, const float *m, float *w, int outs, int ins,
                                                      int row, float middle, int begins)
{
    const int w_ci = a->w_ci;
    for (; outs > 0; --outs, w += a->w_co, m += 4) {
        float *to = w;
        for (const float *from = m, *end = m + ins; from < end; ++from, to += w_ci)
            tl_winograd_bw_w_row(to, from[0], from[16], from[32], from[48], row, middle, begins);
    }
}

#define ADD(row, middle, begins) add(a, m, w, outs, ins, row, middle, begins)

static __attribute__((noinline)) void weights(const tl_winograd_pairs_bw_w *t, const float *m, int out, int in)
{
    const tl_conv2d *a = t->a;
    const int outs = tl_min(4, t->outs - out), ins = tl_min(4, t->ins - in);
    float *w = a->w + (t->group * a->co + t->out + out) * a->w_co + (t->in + in) * a->w_ci;
    TL_WINOGRAD_BW_W_ROW(t->row, t->begins && t->row < 2, ADD);
}

void tl_winograd_pairs_bw_w_products(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs_bw_w *t = of;
    const int each = t->pairs * TL_WINOGRAD_PAIR, fours = (t->ins + 3) / 4;
    for (int four = first; four < first + count; ++four) {
        float *m = t->m + (t->alone ? tl_core_id() : at * fours + four) * TL_WINOGRAD_UNIT;
        if (t->first)
            new_sums(t->z + at * each, t->v + four * each, t->pairs, m);
        else
            more_sums(t->z + at * each, t->v + four * each, t->pairs, m);
        if (t->last)
            weights(t, m, 4 * at, 4 * four);
    }
}
