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

void tl_winograd_bw_w_weights(const void *of, int at, int first, int count)
{
    const tl_winograd_bw_w *t = of;
    const tl_conv2d *a = t->a;
    const int fours = (t->outs + 3) / 4, element = (t->ins + 3) / 4 * fours * 16, w_co = a->w_co, row = t->row;
    const int begins = t->block == 0 && !a->accumulate && row < 2;
    const float *m0 = t->m + (at >> 2) * fours * 16 + first * 4 + (at & 3);
    const float *m1 = m0 + element, *m2 = m1 + element, *m3 = m2 + element;
    float *w = a->w + (t->group * a->co + t->out + first) * w_co + (t->in + at) * a->w_ci;
    for (; count > 0; --count, w += w_co, m0 += 4, m1 += 4, m2 += 4, m3 += 4)
        tl_winograd_bw_w_row(w, *m0, *m1, *m2, *m3, row, begins);
}
