/* Weight gradients of depthwise convolutions, on a copy of a channel with its padding; internal to c_lib/kernels. An item
 * of work is a kernel row of a channel, whose sums stay in registers. Scratch: a channel of all images a core. */
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

/* So many neighbouring outputs. Literals: outputs, taps, step. */
TL_PLANE void tl_plane_outputs(float *s, const float *in, const float *y, int outputs, int taps, int step)
{
    float scale[4];
    for (int i = 0; i < outputs; ++i)
        scale[i] = y[i];
    for (int t = 0; t < taps; ++t)
        for (int i = 0; i < outputs; ++i)
            s[t] = __builtin_fmaf(scale[i], in[t + i * step], s[t]);
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
    for (int t = 0; t < taps; ++t)
        b->w[t] += s[t];
}

/* All blocks of one kernel row, which are added to w[0 .. taps); in: where it meets the copy of the first image. */
TL_PLANE void tl_plane_blocks(const tl_conv2d *a, const tl_copied *c, const float *in, const float *y, float *w,
                              int step, void (*meet)(const tl_plane_block *))
{
    const tl_blocks blocks = tl_blocks_of(a);
    tl_plane_block b = {.w = w, .run = a->wo, .down = step * c->columns, .y_down = a->yp.h};
    for (tl_output at = {0, 0, 0}; at.n < a->n; tl_output_skip(a, b.run, &at)) {
        if (blocks.across > 1)
            b.run = tl_block_size(a, &blocks, &at);
        b.in = in + (at.n * c->rows + at.oy * step) * c->columns + at.ox * step;
        b.y = y + at.n * a->yp.n + at.oy * a->yp.h + at.ox;
        b.rows = tl_min(blocks.rows, a->ho - at.oy);
        meet(&b);
        at.oy += b.rows - 1;
    }
}

TL_PLANE void tl_plane_bw_w(const tl_conv2d *a, int taps, int step, void (*meet)(const tl_plane_block *))
{
    const tl_copied c = {-a->pad_h, -a->pad_w, (a->ho - 1) * step + a->kh, (a->wo - 1) * step + taps, 0};
    float *own = (float *)a->scratch + tl_core_id() * a->n * c.rows * c.columns;
    int lo, hi, copied = -1;
    TL_PROMISE(a->ci == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == step && a->stride_w == step);
    tl_split_among(tl_team(a->team), a->groups * a->co * a->kh, 1, &lo, &hi);
    for (; lo < hi; ++lo) {
        const int o = lo / a->kh, ky = lo - o * a->kh, channel = o / a->co;
        float *w = a->w + o * a->w_co + ky * taps;
        for (int n = 0; n < a->n && channel != copied; ++n)
            tl_plane_copy(&c, a->x + n * a->xp.n + channel * a->xp.c, a->xp.h, a->h, a->wd,
                          own + n * c.rows * c.columns);
        copied = channel;
        for (int t = 0; t < taps && !a->accumulate; ++t)
            w[t] = 0.0f;
        tl_plane_blocks(a, &c, own + ky * c.columns, a->y + o * a->yp.c, w, step, meet);
    }
}
#endif
