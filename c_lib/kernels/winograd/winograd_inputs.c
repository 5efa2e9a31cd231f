/* A row of the transformed 4 x 4 inputs, tiles side by side. */
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */
#include "tl_winograd_inputs.h"

static __attribute__((noinline)) void four(const tl_two_rows *of, int left, int right, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    const int p_step = of->p_step, q_step = of->q_step;
    for (; count > 0; --count, v += 16, p += p_step, q += q_step)
        tl_transform_four(p, q, k, left, right, v, 1);
}

static __attribute__((noinline)) void one(const tl_two_rows *of, int from, int to, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    for (; count > 0; --count, v += 16, p += of->p_step, q += of->q_step)
        tl_transform_one(p, q, k, from, to, v);
}

void tl_winograd_inputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int y0 = g->y.in0 - (t->turned ? 2 : 0), x0 = g->x.in0 - (t->turned ? 2 : 0), number = 4 * (t->panel + at);
    const float *in = g->in + (t->group * g->chans + t->chan + first) * g->in_p.c;
    float *v = t->v + (at * t->chans + first) * 16;
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    for (int j = 0; j < 4; ++j, ++v) {
        TL_ONE_POINTER(j) /* not four copies */
        const int x = x0 + 2 * tile.x;
        tl_two_rows rows = {.p = t->zeros, .p_step = g->in_p.c};
        tl_winograd_rows(&rows, in + tile.n * g->in_p.n + x, y0 + 2 * tile.y, t->row, g->y.extent, g->in_p.h);
        if (j == 0 && tile.x + 4 <= t->wide && x >= -1 && x + 9 <= g->x.extent) {
            four(&rows, x >= 0, x + 9 < g->x.extent, v, count);
            return;
        }
        one(&rows, -x, g->x.extent - x, v, count);
        if (number + j + 1 < g->n * t->high * t->wide)
            tl_next_tile(&tile, t->high, t->wide);
    }
}
