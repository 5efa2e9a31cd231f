/* A row of the transformed 4 x 4 inputs. */
#include "tl_winograd.h"

/* Two rows of an image that are added or subtracted; outside of it zeros that stay where they are. */
typedef struct {
    const float *p, *q;
    int p_step, q_step; /* to the next channel */
    float sign;         /* p + sign * q */
} two_rows;

#define TL_PAIR(j) __builtin_fmaf(k, q[j], p[j])

/* Four tiles side by side; the columns between the first and the last of ten are inside. */
static __attribute__((noinline)) void four(const two_rows *of, int left, int right, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    const int p_step = of->p_step, q_step = of->q_step;
    for (; count > 0; --count, v += 16) {
        const float a = left ? TL_PAIR(0) : 0.0f, j = right ? TL_PAIR(9) : 0.0f;
        const float b = TL_PAIR(1), c = TL_PAIR(2), d = TL_PAIR(3), e = TL_PAIR(4);
        v[0] = a - c, v[4] = b + c, v[8] = c - b, v[12] = b - d;
        v[1] = c - e, v[5] = d + e, v[9] = e - d;
        const float f = TL_PAIR(5), g = TL_PAIR(6);
        v[13] = d - f;
        v[2] = e - g, v[6] = f + g, v[10] = g - f;
        const float h = TL_PAIR(7), i = TL_PAIR(8);
        v[14] = f - h;
        v[3] = g - i, v[7] = h + i, v[11] = i - h, v[15] = h - j;
        p += p_step, q += q_step;
    }
}

/* One tile, the columns of which are inside from `from` to `to`. */
static __attribute__((noinline)) void one(const two_rows *of, int from, int to, float *v, int count)
{
    const float *p = of->p, *q = of->q, k = of->sign;
    for (; count > 0; --count, v += 16) {
        const float a = from <= 0 && to > 0 ? TL_PAIR(0) : 0.0f, b = from <= 1 && to > 1 ? TL_PAIR(1) : 0.0f;
        const float c = from <= 2 && to > 2 ? TL_PAIR(2) : 0.0f, d = from <= 3 && to > 3 ? TL_PAIR(3) : 0.0f;
        v[0] = a - c, v[4] = b + c, v[8] = c - b, v[12] = b - d;
        p += of->p_step, q += of->q_step;
    }
}

/* The rows that make row t->row of B' d, for a tile whose first input is in row y and column x. */
static __attribute__((noinline)) void rows_of(const tl_winograd *t, const float *in, int y, int x, two_rows *of)
{
    const tl_gather *g = t->g;
    const int first = y + (0x1210 >> 4 * t->row & 3), second = y + (0x3122 >> 4 * t->row & 3);
    *of = (two_rows){t->zeros, t->zeros, 0, 0, t->row == 1 ? 1.0f : -1.0f};
    if ((unsigned)first < (unsigned)g->y.extent)
        of->p = in + first * g->in_p.h + x, of->p_step = g->in_p.c;
    if ((unsigned)second < (unsigned)g->y.extent)
        of->q = in + second * g->in_p.h + x, of->q_step = g->in_p.c;
}

void tl_winograd_inputs(const tl_winograd *t, int at, int first, int count)
{
    const tl_gather *g = t->g;
    const int y0 = g->y.in0 - (t->turned ? 2 : 0), x0 = g->x.in0 - (t->turned ? 2 : 0), number = 4 * (t->panel + at);
    const float *in = g->in + (t->group * g->chans + t->chan + first) * g->in_p.c;
    float *v = t->v + (at * t->chans + first) * 16;
    tl_tile_at tile = tl_tile_of(t, number);
    two_rows of;
    for (int j = 0; j < 4; ++j, ++v) {
        TL_ONE_POINTER(j) /* not four copies */
        const int x = x0 + 2 * tile.x;
        rows_of(t, in + tile.n * g->in_p.n, y0 + 2 * tile.y, x, &of);
        if (j == 0 && tile.x + 4 <= t->wide && x >= -1 && x + 9 <= g->x.extent) {
            four(&of, x >= 0, x + 9 < g->x.extent, v, count);
            return;
        }
        one(&of, -x, g->x.extent - x, v, count);
        if (number + j + 1 < g->n * t->high * t->wide)
            tl_next_tile(t, &tile);
    }
}
