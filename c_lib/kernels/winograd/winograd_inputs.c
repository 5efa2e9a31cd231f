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

static __attribute__((noinline)) void two(const tl_two_rows *of, int left, int right, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    const int p_step = of->p_step, q_step = of->q_step;
    for (; count > 0; --count, v += 16, p += p_step, q += q_step)
        tl_transform_two(p, q, k, left, right, v);
}

static __attribute__((noinline)) void one(const tl_two_rows *of, int from, int to, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    for (; count > 0; --count, v += 16, p += of->p_step, q += of->q_step)
        tl_transform_one(p, q, k, from, to, v);
}

/* The column where a tile's inputs begin. */
static inline int column_of(const tl_winograd *t, const tl_tile_at *tile)
{
    return t->g->x.in0 - (t->turned ? 2 : 0) + 2 * tile->x;
}

static inline tl_two_rows rows_of(const tl_winograd *t, const tl_tile_at *tile, const float *in, int column)
{
    const tl_gather *g = t->g;
    tl_two_rows rows = {.p = t->zeros, .p_step = g->in_p.c};
    tl_winograd_rows(&rows, in + tile->n * g->in_p.n + column, g->y.in0 - (t->turned ? 2 : 0) + 2 * tile->y, t->row,
                     g->y.extent, g->in_p.h);
    return rows;
}

/* Tiles from `tile` on, which are in several rows or reach out of the image: two at a time where they can. */
static __attribute__((noinline)) void apart(const tl_winograd *t, tl_tile_at tile, int left, const float *in, float *v,
                                            int count)
{
    for (int j = 0, done; j < 4; j += done, v += done) {
        const int x = column_of(t, &tile), inside = t->g->x.extent - x;
        const tl_two_rows rows = rows_of(t, &tile, in, x);
        done = j < 3 && t->wide - tile.x >= 2 && x >= -1 && inside >= 5 ? 2 : 1;
        if (done == 2)
            two(&rows, x >= 0, inside > 5, v, count);
        else
            one(&rows, -x, inside, v, count);
        tile.x += done - 1;
        if (j + done < left)
            tl_next_tile(&tile, t->high, t->wide);
    }
}

void tl_winograd_inputs(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    const int number = 4 * (t->panel + at);
    const float *in = g->in + (t->group * g->chans + t->chan + first) * g->in_p.c;
    float *v = t->v + (at * t->chans + first) * 16;
    const tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    const int x = column_of(t, &tile);
    if (tile.x + 4 <= t->wide && x >= -1 && x + 9 <= g->x.extent) {
        const tl_two_rows rows = rows_of(t, &tile, in, x);
        four(&rows, x >= 0, x + 9 < g->x.extent, v, count);
    } else {
        apart(t, tile, g->n * t->high * t->wide - number, in, v, count);
    }
}
