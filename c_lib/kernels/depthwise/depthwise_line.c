/* Four pixels of a row, with any taps. */
#include "tl_line.h"

/* The taps t with 0 <= at + t*step < extent, as a range. */
void tl_line_taps(int at, int step, int extent, int taps, int *first, int *last)
{
    int lo = 0, hi = taps;
    while (lo < hi && (unsigned)(at + lo * step) >= (unsigned)extent)
        ++lo;
    while (hi > lo && (unsigned)(at + (hi - 1) * step) >= (unsigned)extent)
        --hi;
    *first = lo, *last = hi;
}

/* Four pixels of any kernel with several channels or blocks: total[j] += the terms of the pixel that reads in + j*step,
 * over the taps x0 .. x1 - 1 of each row. */
static void dot_blocks(const tl_gather *g, const tl_line *l, int at, int step, int x0, int x1, float *total)
{
    const int taps = g->y.taps * g->x.taps, in_step = g->x.tap_in, w_step = g->x.tap_step;
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int c = 0, block = 0; c < g->chans; ++c) {
        for (int ty = l->y0; ty < l->y1; ++ty) {
            const float *px = l->in + at + x0 * in_step + c * g->in_p.c + ty * g->y.tap_in * g->in_p.h;
            const float *weight =
                l->w + g->x.tap0 + x0 * w_step + c * g->w_chan + (g->y.tap0 + ty * g->y.tap_step) * g->kw;
            for (int tx = x0; tx < x1; ++tx, px += in_step, weight += w_step) {
                const int of = (c * taps + ty * g->x.taps + tx) / TL_KC;
                for (int j = 0; j < 4; ++j) {
                    if (of != block)
                        total[j] += s[j], s[j] = 0.0f;
                    s[j] = __builtin_fmaf(*weight, px[j * step], s[j]);
                }
                block = of;
            }
        }
    }
    for (int j = 0; j < 4; ++j)
        total[j] += s[j];
}

/* The same for one channel and one block. */
static inline __attribute__((always_inline)) void dot_block(const tl_gather *g, const tl_line *l, int at, int step,
                                                            int x0, int x1, float *total)
{
    const int in_step = g->x.tap_in, w_step = g->x.tap_step, next_in = g->y.tap_in * g->in_p.h - (x1 - x0) * in_step;
    const int next_w = g->y.tap_step * g->kw - (x1 - x0) * w_step;
    const float *px = l->in + at + x0 * in_step + l->y0 * g->y.tap_in * g->in_p.h;
    const float *w = l->w + g->x.tap0 + x0 * w_step + (g->y.tap0 + l->y0 * g->y.tap_step) * g->kw;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (int ty = l->y1 - l->y0; ty > 0; --ty, px += next_in, w += next_w) {
        for (int tx = x1 - x0; tx > 0; --tx, px += in_step, w += w_step) {
            const float scale = *w;
            s0 = __builtin_fmaf(scale, px[0], s0);
            s1 = __builtin_fmaf(scale, px[step], s1);
            s2 = __builtin_fmaf(scale, px[2 * step], s2);
            s3 = __builtin_fmaf(scale, px[3 * step], s3);
        }
    }
    total[0] += s0, total[1] += s1, total[2] += s2, total[3] += s3;
}

/* Pixels q .. q + 3, or q four times, which hit the taps x0 .. x1 - 1; those from `fresh` up to `end` are stored. */
void tl_line_four(const tl_gather *g, const tl_line *l, int q, int fresh, int end, int x0, int x1)
{
    const int at = g->x.in0 + q * g->x.in_step, shift = g->x.out_step, step = end - q > 1 ? g->x.in_step : 0;
    float *to = l->out + g->x.out0 + q * shift, total[4];
    for (int j = 0; j < 4; ++j)
        total[j] = q + j < end && g->accumulate ? to[j * shift] : l->start;
    if (g->chans * g->y.taps * g->x.taps > TL_KC || g->chans > 1)
        dot_blocks(g, l, at, step, x0, x1, total);
    else if (step == 1)
        dot_block(g, l, at, 1, x0, x1, total);
    else
        dot_block(g, l, at, step, x0, x1, total);
    for (int j = fresh - q; j < end - q; ++j)
        to[j * shift] = total[j];
}
