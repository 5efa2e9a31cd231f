/* Products of a row of the transformed 4 x 4 of halves, and what they add to the gradient of the weight. */
#define TL_HALVES
#include "tl_winograd_pairs_bw_w.h"
#include "tl_winograd_pairs_sums.h"

/* w += factor * share, or factor * share where the weight begins. */
static inline __attribute__((always_inline)) void put(float *w, float factor, int begins, const float *share)
{
    for (int i = 0; i < 3; ++i)
        w[i] = __builtin_fmaf(factor, share[i], begins ? 0.0f : w[i]);
}

/* By rows of the kernel: sums of the first row of products go to the first, of the last to the last, of others to
 * all. */
static inline __attribute__((always_inline)) void add(float *w, const float *m, int row, int begins)
{
    const float sum = m[16] + m[32], difference = m[16] - m[32], middle = row == 1 ? 0.5f : -0.5f;
    const float share[3] = {__builtin_fmaf(0.5f, sum, m[0]), 0.5f * difference, __builtin_fmaf(0.5f, sum, -m[48])};
    if (row == 0) {
        put(w, 1.0f, begins, share);
    } else if (row == 3) {
        put(w + 6, -1.0f, 0, share);
    } else {
        put(w, 0.5f, 0, share);
        put(w + 3, middle, begins, share);
        put(w + 6, 0.5f, begins, share);
    }
}

/* Kernels of up to 4 x 4 channels. */
static __attribute__((noinline)) void weights(const tl_winograd_pairs_bw_w *t, const float *m, int out, int in)
{
    const tl_conv2d *a = t->a;
    const int row = t->row, begins = t->begins && row < 2, ins = tl_min(4, t->ins - in), w_ci = a->w_ci;
    float *w = a->w + (t->group * a->co + t->out + out) * a->w_co + (t->in + in) * w_ci;
    for (int outs = tl_min(4, t->outs - out); outs > 0; --outs, w += a->w_co, m += 4) {
        float *to = w;
        for (const float *from = m, *end = m + ins; from < end; ++from, to += w_ci)
            add(to, from, row, begins);
    }
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
