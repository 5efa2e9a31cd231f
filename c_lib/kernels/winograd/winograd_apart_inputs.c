/* A row of the transformed 4 x 4 inputs of tiles that are in several rows or reach out of the image. */
#include "tl_winograd_apart.h"
#include "tl_winograd_inputs.h"

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

void tl_winograd_inputs_apart(const tl_winograd *t, tl_tile_at tile, int left, const float *in, float *v, int count)
{
    for (int j = 0, done; j < 4; j += done, v += done) {
        const int x = tl_input_column(t, &tile), inside = t->g->x.extent - x;
        const tl_two_rows rows = tl_input_rows(t, &tile, in, x);
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
