/* Weight gradients of depthwise convolutions, on a copy of a channel with its padding; internal to c_lib/kernels. An
 * item of work is a kernel row of a channel, whose sums stay in registers. Scratch: a channel of all images a core. */
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

#include "tl_plane_bw_w_xpulp.h"

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
#ifdef TL_XPULP_TILES
    tl_plane_meet_xpulp(b, taps, step);
#else
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
#endif
}

/* All blocks of one kernel row, which are added to b->w[0 .. taps), without output rows whose inputs are outside of the
 * image; b->in and b->y: of the first image. */
TL_PLANE void tl_plane_blocks(const tl_conv2d *a, const tl_blocks *blocks, int ky, int image, tl_plane_block b,
                              int step, void (*meet)(const tl_plane_block *))
{
    const int above = a->pad_h - ky, below = a->h - 1 + above, half = step - 1; /* shifts round down, of either sign */
    const int begin = tl_max(0, (above + half) >> half), end = tl_min(a->ho, (below >> half) + 1);
    const float *first = b.in, *dy = b.y;
    for (int n = a->n; n > 0; --n, first += image, dy += a->yp.n) {
        for (int row = begin, border = 0; row < end; row += b.rows) {
            const float *in = first + row * b.down, *y = dy + row * b.y_down;
            while (border <= row)
                border += blocks->rows;
            b.rows = tl_min(border, end) - row;
            for (int ox = 0; ox < a->wo; ox += TL_KC) {
                b.in = in + ox * step, b.y = y + ox, b.run = tl_min(TL_KC, a->wo - ox);
                meet(&b);
            }
        }
    }
}

TL_PLANE void tl_plane_bw_w(const tl_conv2d *a, int taps, int step, void (*meet)(const tl_plane_block *))
{
    const tl_copied c = {-a->pad_h, -a->pad_w, (a->ho - 1) * step + a->kh, (a->wo - 1) * step + taps, 0};
    const tl_blocks blocks = tl_blocks_of(a);
    const int image = c.rows * c.columns;
    float *own = (float *)a->scratch + tl_core_id() * a->n * image;
    int lo, hi, copied = -1;
    TL_PROMISE(a->ci == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == step && a->stride_w == step);
    tl_split_among(tl_team(a->team), a->groups * a->co * a->kh, 1, &lo, &hi);
    for (int o = lo / a->kh, ky = lo - o * a->kh; lo < hi; ++lo) {
        const int channel = a->co == 1 ? o : o / a->co;
        const tl_plane_block first = {.in = own + ky * c.columns,
                                      .y = a->y + o * a->yp.c,
                                      .w = a->w + o * a->w_co + ky * taps,
                                      .down = step * c.columns,
                                      .y_down = a->yp.h};
        for (int n = 0; n < a->n && channel != copied; ++n)
            tl_plane_copy(&c, a->x + n * a->xp.n + channel * a->xp.c, a->xp.h, a->h, a->wd, own + n * image,
                          copied >= 0);
        copied = channel;
        for (int t = 0; t < taps && !a->accumulate; ++t)
            first.w[t] = 0.0f;
        tl_plane_blocks(a, &blocks, ky, image, first, step, meet);
        if (++ky == a->kh)
            ky = 0, ++o;
    }
}
#endif
