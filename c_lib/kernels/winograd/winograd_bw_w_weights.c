/* Products of a row of the transformed 4 x 4, and what they add to the gradient of the weight. */
#include "tl_winograd_bw_w.h"
#include "tl_winograd_bw_w_row.h"

void tl_winograd_bw_w_products(const void *of, int at, int first, int count)
{
    const tl_winograd_bw_w *t = of;
    const int fours = (t->outs + 3) / 4, ins = (t->ins + 3) / 4, step = t->tiles * 16;
    const int element = at / ins, in = at - element * ins;
    const float *z = t->z + first * step + element * 4, *v = t->v + in * step + element * 4;
    float *m = t->m + (at * fours + first) * 16;
    if (t->tile == t->block)
        tl_winograd_chains(z, step, v, m, count, t->tiles, 1);
    else
        tl_winograd_chains_resumed(z, step, v, m, count, t->tiles);
}

/* One input channel and so many of outputs. */
static inline __attribute__((always_inline)) void add(const float *m0, int element, float *w, int w_co, int count,
                                                      int row, float middle, int begins)
{
    const float *m1 = m0 + element, *m2 = m1 + element, *m3 = m2 + element;
    for (; count > 0; --count, w += w_co, m0 += 4, m1 += 4, m2 += 4, m3 += 4)
        tl_winograd_bw_w_row(w, *m0, *m1, *m2, *m3, row, middle, begins);
}

#define ADD(row, middle, begins) add(m, element, w, w_co, count, row, middle, begins)

void tl_winograd_bw_w_weights(const void *of, int at, int first, int count)
{
    const tl_winograd_bw_w *t = of;
    const tl_conv2d *a = t->a;
    const int fours = (t->outs + 3) / 4, element = (t->ins + 3) / 4 * fours * 16, w_co = a->w_co;
    const float *m = t->m + (at >> 2) * fours * 16 + first * 4 + (at & 3);
    float *w = a->w + (t->group * a->co + t->out + first) * w_co + (t->in + at) * a->w_ci;
    TL_WINOGRAD_BW_W_ROW(t->row, t->block == 0 && !a->accumulate && t->row < 2, ADD);
}
