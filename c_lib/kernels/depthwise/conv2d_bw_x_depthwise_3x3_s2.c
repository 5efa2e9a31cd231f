/* Input gradient of a depthwise 3 x 3 convolution of stride 2: squares of 2 x 2 outputs, which meet 2 x 2 elements of a
 * copy of dL/dy, with zeros around it, by nine taps. An item of work is a row of squares. Scratch of a core: the copy,
 * and a row for what is outside. */
#include "tl_depthwise_squares.h"

/* The right half of one square in each of so many rows. */
TL_DOWN void right_halves(const float *in, int pitch, const float *w, float *upper, float *lower, int rows, int down)
{
    for (; rows > 0; --rows, in += pitch, upper += down, lower += down) {
        const float a0 = in[0], b0 = in[1], a1 = in[pitch], b1 = in[pitch + 1];
        const float all = __builtin_fmaf(w[6], b0, __builtin_fmaf(w[2], a1, __builtin_fmaf(w[0], b1, 0.0f)));
        *upper = __builtin_fmaf(w[5], a0, __builtin_fmaf(w[3], b0, 0.0f)), *lower = __builtin_fmaf(w[8], a0, all);
    }
}

/* So many rows of squares, the first of which begin at column `left` of the outputs. */
static __attribute__((noinline)) void rows_of_squares(const float *in, int pitch, const float *w, float *upper,
                                                      float *lower, int left, int extent, int rows, int down)
{
    if (left < 0)
        right_halves(in++, pitch, w, upper++, lower++, rows, down), --extent;
    const tl_nine t = tl_nine_of(w);
    for (; extent > 1; extent -= 2, ++in, upper += 2, lower += 2)
        tl_squares_down(in, pitch, t, upper, lower, rows, down, 0, TL_INNER);
    if (extent > 0)
        tl_squares_down(in, pitch, t, upper, lower, rows, down, 0, TL_HALF);
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
            float *upper = at < 0 ? outside : to + at * a->xp.h;
            float *lower = at + 1 < a->h ? to + (at + 1) * a->xp.h : outside;
            done = at < 0 ? 1 : tl_max(1, tl_min(left_rows, (a->h - at) / 2));
            rows_of_squares(in, columns, w, upper, lower, 2 * left + 1 - a->pad_w, a->wd, done, 2 * a->xp.h);
            for (int row = 0; a->bias && row < done; ++row)
                tl_square_add(a->bias[i], upper + 2 * row * a->xp.h, a->wd),
                    tl_square_add(a->bias[i], lower + 2 * row * a->xp.h, a->wd);
        }
    }
}
