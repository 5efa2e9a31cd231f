/* Rows of any depthwise kernel. */
#include "tl_line.h"

/* The first output from q on that reads column `edge` or beyond with a tap that is `shift` columns away. */
static int first_beyond(const tl_gather *g, int shift, int edge)
{
    const int missing = edge - shift - g->x.in0;
    return missing <= 0 ? 0 : tl_min(g->x.count, (missing + g->x.in_step - 1) / g->x.in_step);
}

/* Windows of four pixels from q on, one channel and one block, all taps of rows y0 .. y1 - 1. */
static inline __attribute__((always_inline)) void windows(const tl_gather *g, const tl_line *l, int q, int count,
                                                          int step, int shift)
{
    const int in_step = g->x.tap_in, w_step = g->x.tap_step, taps = g->x.taps, rows = l->y1 - l->y0;
    const int next_in = g->y.tap_in * g->in_p.h - taps * in_step, next_w = g->y.tap_step * g->kw - taps * w_step;
    const float *in = l->in + g->x.in0 + q * step + l->y0 * g->y.tap_in * g->in_p.h;
    const float *first = l->w + g->x.tap0 + (g->y.tap0 + l->y0 * g->y.tap_step) * g->kw;
    float *to = l->out + g->x.out0 + q * shift;
    for (; count > 0; --count, in += 4 * step, to += 4 * shift) {
        const float *px = in, *w = first;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (int ty = rows; ty > 0; --ty, px += next_in, w += next_w) {
            for (int tx = taps; tx > 0; --tx, px += in_step, w += w_step) {
                const float scale = *w;
                s0 = __builtin_fmaf(scale, px[0], s0);
                s1 = __builtin_fmaf(scale, px[step], s1);
                s2 = __builtin_fmaf(scale, px[2 * step], s2);
                s3 = __builtin_fmaf(scale, px[3 * step], s3);
            }
        }
        if (g->accumulate)
            to[0] += s0, to[shift] += s1, to[2 * shift] += s2, to[3 * shift] += s3;
        else
            to[0] = l->start + s0, to[shift] = l->start + s1, to[2 * shift] = l->start + s2,
            to[3 * shift] = l->start + s3;
    }
}

/* Pixel q, one channel and one block, the taps x0 .. x1 - 1 of rows y0 .. y1 - 1. */
static void one_pixel(const tl_gather *g, const tl_line *l, int q, int x0, int x1)
{
    const int in_step = g->x.tap_in, w_step = g->x.tap_step, next_in = g->y.tap_in * g->in_p.h - (x1 - x0) * in_step;
    const int next_w = g->y.tap_step * g->kw - (x1 - x0) * w_step;
    const float *px = l->in + g->x.in0 + q * g->x.in_step + x0 * in_step + l->y0 * g->y.tap_in * g->in_p.h;
    const float *w = l->w + g->x.tap0 + x0 * w_step + (g->y.tap0 + l->y0 * g->y.tap_step) * g->kw;
    float *to = l->out + g->x.out0 + q * g->x.out_step, sum = 0.0f;
    for (int ty = l->y1 - l->y0; ty > 0; --ty, px += next_in, w += next_w)
        for (int tx = x1 - x0; tx > 0; --tx, px += in_step, w += w_step)
            sum = __builtin_fmaf(*w, *px, sum);
    *to = (g->accumulate ? *to : l->start) + sum;
}

/* The outputs lo .. hi - 1 of a row hit all taps. */
static void any_row(const tl_gather *g, const tl_line *l, int lo, int hi)
{
    const int taps = g->x.taps, simple = g->chans == 1 && g->y.taps * taps <= TL_KC, many = (hi - lo) / 4;
    for (int q = 0; q < g->x.count;) {
        int x0 = 0, x1 = taps;
        if (q == lo && many > 0 && simple) {
            if (g->x.in_step == 1)
                windows(g, l, q, many, 1, g->x.out_step);
            else
                windows(g, l, q, many, g->x.in_step, g->x.out_step);
            q += 4 * many;
        } else if (q >= lo && q < hi && many > 0) {
            const int from = tl_min(q, hi - 4); /* the last one may overlap the one before */
            if (simple && !g->accumulate)
                windows(g, l, from, 1, g->x.in_step, g->x.out_step);
            else
                tl_line_four(g, l, from, q, from + 4, x0, x1);
            q = from + 4;
        } else {
            tl_line_taps(g->x.in0 + q * g->x.in_step, g->x.tap_in, g->x.extent, taps, &x0, &x1);
            if (simple)
                one_pixel(g, l, q, x0, x1);
            else
                tl_line_four(g, l, q, q, q + 1, x0, x1);
            ++q;
        }
    }
}

void tl_lines_any(const tl_gather *g)
{
    const int reach = (g->x.taps - 1) * g->x.tap_in;
    const int inner = g->x.taps > 0 ? first_beyond(g, tl_min(0, reach), 0) : 0;
    const int outer = g->x.taps > 0 ? first_beyond(g, reach > 0 ? reach : 0, g->x.extent) : g->x.count;
    if (g->n * g->y.count * g->x.count == 0)
        return;
    for (tl_lines at = tl_lines_first(g); at.left > 0; tl_lines_next(g, &at)) {
        tl_line l = tl_line_at(g, at.n, at.o, at.q);
        int row_at = g->y.in0 + at.q * g->y.in_step;
        for (int rows = at.rows; rows > 0; --rows, row_at += g->y.in_step) {
            tl_line_taps(row_at, g->y.tap_in, g->y.extent, g->y.taps, &l.y0, &l.y1);
            any_row(g, &l, inner, outer);
            l.in += g->y.in_step * g->in_p.h, l.out += g->y.out_step * g->out_p.h;
        }
    }
}
