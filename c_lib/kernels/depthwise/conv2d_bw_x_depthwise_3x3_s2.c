/* Input gradient of a depthwise 3 x 3 convolution of stride 2: squares of 2 x 2 outputs, which meet 2 x 2 elements of a
 * copy of dL/dy, with zeros around it, by nine taps. An item of work is a row of squares. Scratch of a core: the copy,
 * and a row for what is outside. */
#include "tl_plane.h"

/* The square between columns a and b of dL/dy, whose upper row has the index 0. */
#define SQUARE(a, b, at)                                                                                               \
    {                                                                                                                  \
        const float across = __builtin_fmaf(w3, b##0, 0.0f), down = __builtin_fmaf(w1, a##1, 0.0f);                    \
        const float all = __builtin_fmaf(w6, b##0, __builtin_fmaf(w2, a##1, __builtin_fmaf(w0, b##1, 0.0f)));          \
        upper[at] = __builtin_fmaf(w4, a##0, 0.0f), upper[at + 1] = __builtin_fmaf(w5, a##0, across);                  \
        lower[at] = __builtin_fmaf(w7, a##0, down), lower[at + 1] = __builtin_fmaf(w8, a##0, all);                     \
    }

/* `count` neighbouring squares in each of so many rows; in: the first one's element of dL/dy with the lowest row and
 * column; down: from a row of squares to the next in the outputs. */
static __attribute__((noinline)) void squares(const float *in, int pitch, const float *w, float *upper, float *lower,
                                              int count, int rows, int down)
{
    const float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w4 = w[4], w5 = w[5], w6 = w[6], w7 = w[7], w8 = w[8];
    for (down -= 2 * count, pitch -= count; rows > 0; --rows, in += pitch - 1, upper += down, lower += down) {
        const float *next = in + pitch + count;
        float a0 = *in++, a1 = *next++, b0, b1;
        int left = count;
        for (; left >= 2; left -= 2, in += 2, next += 2, upper += 4, lower += 4) {
            b0 = in[0], b1 = next[0];
            SQUARE(a, b, 0)
            a0 = in[1], a1 = next[1];
            SQUARE(b, a, 2)
        }
        if (left > 0) {
            b0 = in[0], b1 = next[0];
            SQUARE(a, b, 0)
            ++in, upper += 2, lower += 2;
        }
    }
}

/* The left halves of so many squares, one below the other. */
static __attribute__((noinline)) void half_squares(const float *in, int pitch, const float *w, float *upper,
                                                   float *lower, int rows, int down)
{
    const float w1 = w[1], w4 = w[4], w7 = w[7];
    float a0 = *in, a1;
    for (; rows > 0; --rows, a0 = a1, upper += down, lower += down) {
        in += pitch, a1 = *in;
        *upper = __builtin_fmaf(w4, a0, 0.0f), *lower = __builtin_fmaf(w7, a0, __builtin_fmaf(w1, a1, 0.0f));
    }
}

/* A row of squares, the first of which begins at column `left` of the rows. */
static void row_of_squares(const float *in, int pitch, const float *w, float *upper, float *lower, int left, int extent)
{
    float alone[4];
    if (left < 0) {
        squares(in++, pitch, w, alone, alone + 2, 1, 1, 0);
        *upper++ = alone[1], *lower++ = alone[3], --extent;
    }
    squares(in, pitch, w, upper, lower, extent / 2, 1, 0);
    if (extent % 2)
        half_squares(in + extent / 2, pitch, w, upper + extent - 1, lower + extent - 1, 1, 0);
}

/* The same of so many rows, all of them inside. */
static void rows_of_squares(const float *in, int pitch, const float *w, float *upper, float *lower, int extent,
                            int rows, int down)
{
    squares(in, pitch, w, upper, lower, extent / 2, rows, down);
    if (extent % 2)
        half_squares(in + extent / 2, pitch, w, upper + extent - 1, lower + extent - 1, rows, down);
}

/* To what is there of a row. */
static __attribute__((noinline)) void add(float bias, float *to, int count)
{
    for (; count > 0; --count, ++to)
        *to = bias + *to;
}

void tl_conv2d_bw_x_depthwise_3x3_s2_f32(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci, top = (a->pad_h - 1) >> 1, left = (a->pad_w - 1) >> 1;
    const int rows = ((a->pad_h + a->h - 2) >> 1) - top + 1, columns = ((a->pad_w + a->wd - 2) >> 1) - left + 2;
    float *own = (float *)a->scratch + tl_core_id() * ((rows + 1) * columns + a->wd);
    float *outside = own + (rows + 1) * columns;
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, rows);
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 2 && a->stride_w == 2);
    const int even = 2 * left + 1 == a->pad_w && a->bias == NULL; /* squares begin with the rows */
    tl_copied c = {.left = left, .columns = columns};
    while (tl_plane_next(&r, rows)) {
        const int n = tl_part_of(r.plane, a->n, ins), i = r.plane - n * ins;
        const int group = tl_part_of(i, a->groups, a->ci);
        const float *w = a->w + group * a->w_co + (i - group * a->ci) * a->w_ci, *in = own;
        float *to = a->x + n * a->xp.n + i * a->xp.c;
        c.top = top + r.row, c.rows = r.end - r.row + 1;
        if (!r.again)
            tl_plane_clear(&c, a->yp.h, a->ho, a->wo, own);
        tl_plane_copy(&c, a->y + n * a->yp.n + group * a->yp.c);
        int at = 2 * c.top + 1 - a->pad_h, left_rows = r.end - r.row;
        for (int done; left_rows > 0; left_rows -= done, at += 2 * done, in += done * columns) {
            done = even && at >= 0 ? tl_min(left_rows, (a->h - at) / 2) : 0;
            if (done > 0) {
                float *upper = to + at * a->xp.h;
                rows_of_squares(in, columns, w, upper, upper + a->xp.h, a->wd, done, 2 * a->xp.h);
                continue;
            }
            done = 1;
            float *upper = at < 0 ? outside : to + at * a->xp.h;
            float *lower = at + 1 < a->h ? to + (at + 1) * a->xp.h : outside;
            row_of_squares(in, columns, w, upper, lower, 2 * left + 1 - a->pad_w, a->wd);
            if (a->bias)
                add(a->bias[i], upper, a->wd), add(a->bias[i], lower, a->wd);
        }
    }
}
