/* A row of the transformed 4 x 4 gradients, A dY A'. */
#include "tl_winograd_bw_w.h"

#define TL_PAIR(j) __builtin_fmaf(k, q[j], p[j])

/* Tiles side by side, all inside; `tiles`, a literal: four or one, then perhaps without the second column. */
static inline __attribute__((always_inline)) void transform(const tl_two_rows *of, int tiles, int wide, float *z,
                                                            int channel, int next, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    const int p_step = of->p_step, q_step = of->q_step;
    for (; count > 0; --count, p += p_step, q += q_step) {
        for (int j = 0; j < tiles; ++j) {
            const float even = TL_PAIR(2 * j), odd = wide ? TL_PAIR(2 * j + 1) : 0.0f;
            z[16 * j] = even, z[16 * j + 4] = even + odd, z[16 * j + 8] = even - odd, z[16 * j + 12] = odd;
        }
        z += ++channel % 4 ? 1 : next;
    }
}

static __attribute__((noinline)) void four(const tl_two_rows *of, float *z, int channel, int next, int count)
{
    transform(of, 4, 1, z, channel, next, count);
}

static __attribute__((noinline)) void one(const tl_two_rows *of, int wide, float *z, int channel, int next, int count)
{
    transform(of, 1, wide, z, channel, next, count);
}

/* The rows that make row t->row of A dY: the upper one, both, their difference, the lower one. */
static void rows_of(const tl_winograd_bw_w *t, const float *y, int below, tl_two_rows *of)
{
    const tl_conv2d *a = t->a;
    *of = (tl_two_rows){t->zeros, t->zeros, 0, 0, t->row == 2 ? -1.0f : 1.0f};
    if (t->row < 3)
        of->p = y, of->p_step = a->yp.c;
    if (t->row > 0 && below)
        of->q = y + a->yp.h, of->q_step = a->yp.c;
}

void tl_winograd_bw_w_gradients(const void *of, int at, int first, int count)
{
    const tl_winograd_bw_w *t = of;
    const tl_conv2d *a = t->a;
    const int next = t->tiles * 16 - 3, left = tl_min(4, t->tiles - 4 * at);
    const float *y = a->y + (t->group * a->co + t->out + first) * a->yp.c;
    float *z = t->z + ((first >> 2) * t->tiles + 4 * at) * 16 + (first & 3);
    tl_tile_at tile = tl_tile_of(t->tile + 4 * at, t->high, t->wide);
    for (int j = 0; j < left; ++j, z += 16) {
        TL_ONE_POINTER(j) /* not four copies */
        tl_two_rows rows;
        rows_of(t, y + tile.n * a->yp.n + 2 * tile.y * a->yp.h + 2 * tile.x, 2 * tile.y + 1 < a->ho, &rows);
        if (j == 0 && left == 4 && tile.x + 4 <= t->wide && 2 * tile.x + 8 <= a->wo) {
            four(&rows, z, first, next, count);
            return;
        }
        one(&rows, 2 * tile.x + 1 < a->wo, z, first, next, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}
