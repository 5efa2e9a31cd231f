/* Rows of the transformed 4 x 4 gradients and inputs, channels side by side. */
#include "tl_winograd_bw_w.h" /* first: it sets how the whole file is compiled */
#include "tl_winograd_inputs.h"

/* Channel after channel of four, and on to the next four. */
#define TL_NEXT(v, channel, next) v += ++channel % 4 ? 1 : next

static __attribute__((noinline)) void four(const tl_two_rows *of, int sides, float *v, int channel, int next, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    const int p_step = of->p_step, q_step = of->q_step, left = sides & 1, right = sides & 2;
    for (; count > 0; --count, p += p_step, q += q_step) {
        tl_transform_four(p, q, k, left, right, v, 16);
        TL_NEXT(v, channel, next);
    }
}

static __attribute__((noinline)) void one(const tl_two_rows *of, int from, int to, float *v, int channel, int next,
                                          int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    for (; count > 0; --count, p += of->p_step, q += of->q_step) {
        tl_transform_one(p, q, k, from, to, v);
        TL_NEXT(v, channel, next);
    }
}

void tl_winograd_bw_w_inputs(const void *of, int at, int first, int count)
{
    const tl_winograd_bw_w *t = of;
    const tl_conv2d *a = t->a;
    const int next = t->tiles * 16 - 3, left = tl_min(4, t->tiles - 4 * at);
    const float *in = a->x + (t->group * a->ci + t->in + first) * a->xp.c;
    float *v = t->v + ((first >> 2) * t->tiles + 4 * at) * 16 + (first & 3);
    tl_tile_at tile = tl_tile_of(t->tile + 4 * at, t->high, t->wide);
    for (int j = 0; j < left; ++j, v += 16) {
        TL_ONE_POINTER(j) /* not four copies */
        const int x = 2 * tile.x - a->pad_w;
        tl_two_rows rows = {.p = t->zeros, .p_step = a->xp.c};
        tl_winograd_rows(&rows, in + tile.n * a->xp.n + x, 2 * tile.y - a->pad_h, t->row, a->h, a->xp.h);
        if (j == 0 && left == 4 && tile.x + 4 <= t->wide && x >= -1 && x + 9 <= a->wd) {
            four(&rows, (x >= 0) + 2 * (x + 9 < a->wd), v, first, next, count);
            return;
        }
        one(&rows, -x, a->wd - x, v, first, next, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}
