/* Weight gradients of depthwise convolutions, on a copy of a plane with its padding; internal to c_lib/kernels. An
 * item of work is a kernel row of a channel; a core has those of a channel meet one image after the other, and sums of
 * a block stay in registers. Halves are widened as they are copied, those of dL/dy, too. Scratch: a plane a core, and
 * of halves one of dL/dy. */
#ifndef TL_PLANE_BW_W_H
#define TL_PLANE_BW_W_H
#include "tl_outputs.h"
#include "tl_plane.h"

/* The part of a block that is in one kernel row: `rows` rows of `run` outputs each. */
typedef struct {
    const float *in, *y; /* what its first output meets, and that */
    float *w;            /* the kernel row, to which the block's sums are added */
    int run, rows, down, y_down;
} tl_plane_block;

#ifdef TL_XPULP_PLANES
#include "tl_plane_bw_w_xpulp.h"
#else
/* So many neighbouring outputs. Literals: outputs, taps, step. */
TL_PLANE void tl_plane_outputs(float *s, const float *in, const float *y, int outputs, int taps, int step)
{
    float scale[4];
    TL_UNROLLED
    for (int i = 0; i < outputs; ++i)
        scale[i] = y[i];
    TL_UNROLLED
    for (int t = 0; t < taps; ++t) {
        TL_UNROLLED
        for (int i = 0; i < outputs; ++i)
            s[t] = __builtin_fmaf(scale[i], in[t + i * step], s[t]);
    }
}

/* One block. Literals: taps, step. */
TL_PLANE void tl_plane_meet(const tl_plane_block *b, int taps, int step)
{
    float s[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    const float *first = b->in, *dy = b->y;
    for (int rows = b->rows; rows > 0; --rows, first += b->down, dy += b->y_down) {
        const float *in = first, *y = dy;
        int count = b->run;
        for (; count >= 4; count -= 4, y += 4, in += 4 * step)
            tl_plane_outputs(s, in, y, 4, taps, step);
        if (count >= 2) {
            tl_plane_outputs(s, in, y, 2, taps, step);
            count -= 2, y += 2, in += 2 * step;
        }
        if (count > 0)
            tl_plane_outputs(s, in, y, 1, taps, step);
    }
    TL_UNROLLED
    for (int t = 0; t < taps; ++t)
        b->w[t] += s[t];
}
#endif

/* All blocks of one kernel row and image, without output rows whose inputs are outside of it; b->in and b->y: of the
 * first output. */
TL_PLANE void tl_plane_blocks(const tl_conv2d *a, int height, int ky, tl_plane_block *b, int taps, int step)
{
    const int above = a->pad_h - ky, below = a->h - 1 + above, half = step - 1; /* shifts round down, of either sign */
    const int begin = tl_max(0, (above + half) >> half), end = tl_min(a->ho, (below >> half) + 1);
    const float *in = b->in + begin * b->down, *y = b->y + begin * b->y_down;
    int border = height;
    while (border <= begin)
        border += height;
    for (int row = begin; row < end; row += b->rows, border += height) {
        b->rows = tl_min(border, end) - row;
        for (int ox = 0; ox < a->wo; ox += TL_KC) {
            b->in = in + ox * step, b->y = y + ox, b->run = tl_min(TL_KC, a->wo - ox);
            tl_plane_meet(b, taps, step);
        }
        in += b->rows * b->down, y += b->rows * b->y_down;
    }
}

/* The kernel rows first .. last - 1 of a channel, by an image and its dL/dy, whose rows are so far apart. */
TL_PLANE void tl_plane_kernel_rows(const tl_conv2d *a, int o, int first, int last, const float *plane, int columns,
                                   const float *y, int y_pitch, int taps, int step)
{
    const int height = tl_blocks_of(a).rows;
    tl_plane_block b = {.w = a->w + o * a->w_co + first * taps, .down = step * columns, .y_down = y_pitch};
    plane += first * columns;
#ifdef TL_XPULP_PLANES
    if (a->wo == 6 && height >= a->ho) {
        tl_plane_rows_of_six(a, plane, columns, y, y_pitch, b.w, first, last - first, taps, step);
        return;
    }
#endif
    for (int ky = first; ky < last; ++ky, plane += columns, b.w += taps) {
        b.in = plane, b.y = y;
        tl_plane_blocks(a, height, ky, &b, taps, step);
    }
}

/* Floats that a core has of dL/dy, and from row to row. */
static inline int tl_plane_outputs_copied(const tl_conv2d *a, int *pitch)
{
#ifdef TL_HALVES
    *pitch = a->wo;
    return a->ho * a->wo;
#else
    *pitch = a->yp.h;
    return 0;
#endif
}

/* dL/dy of a channel and an image, where it lies or, of halves, where it is copied. */
TL_PLANE const float *tl_plane_outputs_of(const tl_conv2d *a, const tl_copied *c, int n, int o)
{
    const tl_element *y = a->TL_READ(y) + n * a->yp.n + o * a->yp.c;
#ifdef TL_HALVES
    tl_plane_copy(c, y);
    return c->to;
#else
    (void)c;
    return y;
#endif
}

TL_PLANE void tl_plane_bw_w(const tl_conv2d *a, int taps, int step)
{
    const int columns = (a->wo - 1) * step + taps;
    tl_copied c = {.top = -a->pad_h, .left = -a->pad_w, .rows = (a->ho - 1) * step + a->kh, .columns = columns};
    tl_copied outputs = {.rows = a->ho, .columns = a->wo};
    int y_pitch, lo, hi;
    const int size = c.rows * columns, of_outputs = tl_plane_outputs_copied(a, &y_pitch);
    float *own = (float *)a->scratch + tl_core_id() * (size + of_outputs);
    TL_PROMISE(a->ci == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == step && a->stride_w == step);
    tl_split_among(tl_team(a->team), a->groups * a->co * a->kh, 1, &lo, &hi);
    if (lo < hi)
        tl_plane_clear(&c, a->xp.h, a->h, a->wd, own);
    if (lo < hi && of_outputs > 0)
        tl_plane_clear(&outputs, a->yp.h, a->ho, a->wo, own + size);
    while (lo < hi) {
        const int o = lo / a->kh, first = lo - o * a->kh, last = tl_min(a->kh, first + hi - lo);
        float *w = a->w + o * a->w_co + first * taps;
        for (int left = a->accumulate ? 0 : (last - first) * taps; left > 0; --left)
            *w++ = 0.0f;
        for (int n = 0; n < a->n; ++n) {
            const float *y = tl_plane_outputs_of(a, &outputs, n, o);
            tl_plane_copy(&c, a->TL_READ(x) + n * a->xp.n + o / a->co * a->xp.c);
            tl_plane_kernel_rows(a, o, first, last, own, columns, y, y_pitch, taps, step);
        }
        lo += last - first;
    }
}
#endif
