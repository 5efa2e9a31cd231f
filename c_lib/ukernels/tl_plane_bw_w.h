/* Weight gradients of depthwise convolutions, on a copy of a channel with its padding; internal to c_lib/kernels. An item
 * of work is a kernel row of a channel, whose sums stay in registers. Scratch: a channel of all images a core. */
#ifndef TL_PLANE_BW_W_H
#define TL_PLANE_BW_W_H
#include "tl_plane.h"

/* `count` outputs of a row meet the plane from `in` on. Literals: taps, step. */
TL_PLANE void tl_plane_meet(float *s, const float *in, const float *y, int count, int taps, int step)
{
    for (; count >= 4; count -= 4, y += 4, in += 4 * step) {
        const float y0 = y[0], y1 = y[1], y2 = y[2], y3 = y[3];
        for (int t = 0; t < taps; ++t) {
            s[t] = __builtin_fmaf(y0, in[t], s[t]);
            s[t] = __builtin_fmaf(y1, in[t + step], s[t]);
            s[t] = __builtin_fmaf(y2, in[t + 2 * step], s[t]);
            s[t] = __builtin_fmaf(y3, in[t + 3 * step], s[t]);
        }
    }
    for (; count > 0; --count, ++y, in += step) {
        const float scale = *y;
        for (int t = 0; t < taps; ++t)
            s[t] = __builtin_fmaf(scale, in[t], s[t]);
    }
}

/* Adds the blocks of one kernel row to w[0 .. taps); in: where it meets the copy of the first image. */
TL_PLANE void tl_plane_blocks(const tl_conv2d *a, const tl_copied *c, const float *in, const float *y, float *w,
                              int taps, int step)
{
    float s[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    const float *row = in, *dy = y;
    int left = a->n * a->ho * a->wo, block = tl_min(TL_KC, left), ox = 0, rows = a->ho;
    for (int run; left > 0; left -= run) {
        run = tl_min(a->wo - ox, block);
        tl_plane_meet(s, row + ox * step, dy + ox, run, taps, step);
        ox += run, block -= run;
        if (ox == a->wo)
            ox = 0, row += step * c->columns, dy += a->yp.h, --rows;
        if (rows == 0)
            in += c->rows * c->columns, y += a->yp.n, row = in, dy = y, rows = a->ho;
        if (block == 0) {
            for (int t = 0; t < taps; ++t)
                w[t] += s[t], s[t] = 0.0f;
            block = tl_min(TL_KC, left - run);
        }
    }
}

TL_PLANE void tl_plane_bw_w(const tl_conv2d *a, int taps, int step)
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
        tl_plane_blocks(a, &c, own + ky * c.columns, a->y + o * a->yp.c, w, taps, step);
    }
}
#endif
