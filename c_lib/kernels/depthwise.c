/* Forward convolution and input gradient whose groups have one channel on either side, or nearly: no operand is shared
 * between output channels, so nothing is packed. An item of work is one output row of one channel; four neighbouring
 * pixels make four chains. */
#include "tl_gather.h"

/* One output row: `in` is column 0 of the row that tap row 0 reads, taps y0 .. y1 - 1 are rows inside the image. */
typedef struct {
    const float *in, *w;
    float *out;
    float start;
    int y0, y1;
} line;

/* The taps t with 0 <= at + t*step < extent, as a range. */
static void valid_taps(int at, int step, int extent, int taps, int *first, int *last)
{
    int lo = 0, hi = taps;
    while (lo < hi && (unsigned)(at + lo * step) >= (unsigned)extent)
        ++lo;
    while (hi > lo && (unsigned)(at + (hi - 1) * step) >= (unsigned)extent)
        --hi;
    *first = lo, *last = hi;
}

/* ---- any kernel ---- */

/* Four pixels of any kernel with several channels or blocks: total[j] += the terms of the pixel that reads in + j*step,
 * over the taps x0 .. x1 - 1 of each row. */
static void dot_blocks(const tl_gather *g, const line *l, int at, int step, int x0, int x1, float *total)
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
static inline __attribute__((always_inline)) void dot_block(const tl_gather *g, const line *l, int at, int step, int x0,
                                                            int x1, float *total)
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
static void four(const tl_gather *g, const line *l, int q, int fresh, int end, int x0, int x1)
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

/* The first output from q on that reads column `edge` or beyond with a tap that is `shift` columns away. */
static int first_beyond(const tl_gather *g, int shift, int edge)
{
    const int missing = edge - shift - g->x.in0;
    return missing <= 0 ? 0 : tl_min(g->x.count, (missing + g->x.in_step - 1) / g->x.in_step);
}

/* Windows of four pixels from q on, one channel and one block, all taps of rows y0 .. y1 - 1. */
static inline __attribute__((always_inline)) void windows(const tl_gather *g, const line *l, int q, int count, int step,
                                                          int shift)
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
static void one_pixel(const tl_gather *g, const line *l, int q, int x0, int x1)
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
static void any_row(const tl_gather *g, const line *l, int lo, int hi)
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
                four(g, l, from, q, from + 4, x0, x1);
            q = from + 4;
        } else {
            valid_taps(g->x.in0 + q * g->x.in_step, g->x.tap_in, g->x.extent, taps, &x0, &x1);
            if (simple)
                one_pixel(g, l, q, x0, x1);
            else
                four(g, l, q, q, q + 1, x0, x1);
            ++q;
        }
    }
}

/* ---- 3 x 3 with neighbouring taps ---- */

#define TL_TAP(w, a, b, c, d)                                                                                          \
    s0 = __builtin_fmaf(w, a, s0), s1 = __builtin_fmaf(w, b, s1);                                                      \
    s2 = __builtin_fmaf(w, c, s2), s3 = __builtin_fmaf(w, d, s3);

/* One of the three rows of a window. turned: the taps run from right to left. */
#define TL_TAPS(p, w0, w1, w2, outside_left, outside_right)                                                            \
    {                                                                                                                  \
        const float first = outside_left ? 0.0f : p[0], last = outside_right ? 0.0f : p[3 * step + 2];                 \
        if (turned) {                                                                                                  \
            TL_TAP(w0, p[2], p[step + 2], p[2 * step + 2], last)                                                       \
            TL_TAP(w1, p[1], p[step + 1], p[2 * step + 1], p[3 * step + 1])                                            \
            TL_TAP(w2, first, p[step], p[2 * step], p[3 * step])                                                       \
        } else {                                                                                                       \
            TL_TAP(w0, first, p[step], p[2 * step], p[3 * step])                                                       \
            TL_TAP(w1, p[1], p[step + 1], p[2 * step + 1], p[3 * step + 1])                                            \
            TL_TAP(w2, p[2], p[step + 2], p[2 * step + 2], last)                                                       \
        }                                                                                                              \
    }

/* A row of `windows` windows of four pixels, which read p0, p1, p2 in steps of m0, m1, m2. left: the first column of
 * the first one is outside the image; right: the last column of the last one. */
#define TL_STRIP(left_edge, right_edge)                                                                                \
    for (int left = left_edge, more = windows; more > 0; --more, to += 4, left = 0) {                                  \
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;                                                              \
        const int right = more == 1 ? right_edge : 0;                                                                  \
        if (left | right) {                                                                                            \
            TL_TAPS(p0, w0, w1, w2, left, right)                                                                       \
            TL_TAPS(p1, w3, w4, w5, left, right)                                                                       \
            TL_TAPS(p2, w6, w7, w8, left, right)                                                                       \
        } else {                                                                                                       \
            TL_TAPS(p0, w0, w1, w2, 0, 0)                                                                              \
            TL_TAPS(p1, w3, w4, w5, 0, 0)                                                                              \
            TL_TAPS(p2, w6, w7, w8, 0, 0)                                                                              \
        }                                                                                                              \
        if (accumulate)                                                                                                \
            to[0] += s0, to[1] += s1, to[2] += s2, to[3] += s3;                                                        \
        else                                                                                                           \
            to[0] = start + s0, to[1] = start + s1, to[2] = start + s2, to[3] = start + s3;                            \
        p0 += m0, p1 += m1, p2 += m2;                                                                                  \
    }

/* Windows from `column` on of `rows` rows of one channel, the first of which reads image row row_at; pixels of a row
 * are `step` columns apart. Rows outside the image are a row of zeros. */
static inline __attribute__((always_inline)) void strips(const tl_gather *g, const line *l, int row_at, int rows,
                                                         int column, int windows, float *out, int step, int turned)
{
    static const float zeros[9] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    const float *w = l->w, w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w4 = w[4], w5 = w[5], w6 = w[6], w7 = w[7],
                w8 = w[8];
    const float start = l->start, *in = l->in + column;
    const int accumulate = g->accumulate, extent = g->y.extent, dil = g->y.tap_in, pitch = dil * g->in_p.h;
    const int edge_left = column<0, edge_right = column + (4 * windows - 1) * step + 3> g->x.extent;
    for (; rows > 0; --rows, row_at += g->y.in_step, in += g->y.in_step * g->in_p.h, out += g->out_p.h) {
        const int i0 = (unsigned)row_at < (unsigned)extent, i1 = (unsigned)(row_at + dil) < (unsigned)extent;
        const int i2 = (unsigned)(row_at + 2 * dil) < (unsigned)extent;
        const int m0 = i0 ? 4 * step : 0, m1 = i1 ? 4 * step : 0, m2 = i2 ? 4 * step : 0;
        const float *p0 = i0 ? in : zeros, *p1 = i1 ? in + pitch : zeros, *p2 = i2 ? in + 2 * pitch : zeros;
        float *to = out;
        TL_STRIP(edge_left, edge_right)
    }
}

static void strips_3x3(const tl_gather *g, const line *l, int row_at, int rows, int column, int windows, float *out)
{
    if (g->x.tap_in < 0)
        strips(g, l, row_at, rows, column, windows, out, 1, 1);
    else if (g->x.in_step == 1)
        strips(g, l, row_at, rows, column, windows, out, 1, 0);
    else
        strips(g, l, row_at, rows, column, windows, out, 2, 0);
}

/* A window that reaches further out of the image than one column: pixel by pixel. */
static void ragged_window(const tl_gather *g, const line *l, int row_at, int q)
{
    line row = *l;
    valid_taps(row_at, g->y.tap_in, g->y.extent, g->y.taps, &row.y0, &row.y1);
    for (int end = tl_min(g->x.count, q + 4); q < end; ++q) {
        int x0, x1;
        valid_taps(g->x.in0 + q * g->x.in_step, g->x.tap_in, g->x.extent, g->x.taps, &x0, &x1);
        four(g, &row, q, q, q + 1, x0, x1);
    }
}

/* Pixels q .. q + 3, of which those from `fresh` on are stored. */
static void lone_window(const tl_gather *g, const line *l, int row_at, int column, int q, int fresh)
{
    float part[4], *to = l->out + g->x.out0 + q;
    if (column < -1 || column + 3 * g->x.in_step + 3 > g->x.extent + 1 || q + 4 > g->x.count) {
        ragged_window(g, l, row_at, fresh);
        return;
    }
    for (int j = 0; j < 4; ++j)
        part[j] = g->accumulate ? to[j] : 0.0f;
    strips_3x3(g, l, row_at, 1, column, 1, part);
    for (int j = fresh - q; j < 4; ++j)
        to[j] = part[j];
}

/* The window of the last four pixels, which overlaps the one before: its rows too are one strip, unless what they share
 * would be added twice. */
static int ends_in_strip(const tl_gather *g, int column, int whole)
{
    return !g->accumulate && whole > 0 && g->x.count - 4 * whole < 4 &&
           column + 3 * g->x.in_step + 3 <= g->x.extent + 1;
}

/* `rows` rows of one channel; l is the first of them. */
static void rows_3x3(const tl_gather *g, const line *first, int row_at, int rows)
{
    const int step = g->x.in_step, start = g->x.in0 + tl_min(0, 2 * g->x.tap_in), count = g->x.count;
    const int last = start + (count - 4) * step;
    int whole = start < -1 ? 0 : count / 4;
    while (whole > 0 && start + (4 * whole - 1) * step + 3 > g->x.extent + 1)
        --whole;
    if (whole > 0)
        strips_3x3(g, first, row_at, rows, start, whole, first->out + g->x.out0);
    if (4 * whole < count && ends_in_strip(g, last, whole)) {
        strips_3x3(g, first, row_at, rows, last, 1, first->out + g->x.out0 + count - 4);
        return;
    }
    for (line l = *first; rows > 0 && 4 * whole < count; --rows) {
        for (int q = 4 * whole; q < count; q += 4) {
            const int from = q + 4 > count && count >= 4 ? count - 4 : q; /* the last one may overlap the one before */
            lone_window(g, &l, row_at, start + from * step, from, q);
        }
        row_at += g->y.in_step, l.in += g->y.in_step * g->in_p.h, l.out += g->out_p.h;
    }
}

static int is_3x3(const tl_gather *g)
{
    const int forward = g->x.tap_in == 1 && g->x.in_step <= 2, turned = g->x.tap_in == -1 && g->x.in_step == 1;
    return g->y.taps == 3 && g->x.taps == 3 && g->kw == 3 && g->y.tap_step == 1 && g->x.tap_step == 1 &&
           g->chans == 1 && g->x.out_step == 1 && g->y.out_step == 1 && (forward || turned);
}

/* Rows q .. q + rows - 1 of output channel o. */
static void channel_rows(const tl_gather *g, int n, int o, int q, int rows, int lo, int hi)
{
    const int group = o / g->rows;
    int row_at = g->y.in0 + q * g->y.in_step;
    line l;
    l.in = g->in + n * g->in_p.n + group * g->chans * g->in_p.c + row_at * g->in_p.h;
    l.w = g->w + group * g->w_group + (o - group * g->rows) * g->w_row;
    l.out = g->out + n * g->out_p.n + o * g->out_p.c + (g->y.out0 + q * g->y.out_step) * g->out_p.h;
    l.start = g->bias ? g->bias[o] : 0.0f;
    if (is_3x3(g)) {
        rows_3x3(g, &l, row_at, rows);
        return;
    }
    for (; rows > 0; --rows, row_at += g->y.in_step) {
        valid_taps(row_at, g->y.tap_in, g->y.extent, g->y.taps, &l.y0, &l.y1);
        any_row(g, &l, lo, hi);
        l.in += g->y.in_step * g->in_p.h, l.out += g->y.out_step * g->out_p.h;
    }
}

void tl_gather_depthwise(const tl_gather *g)
{
    const int outs = g->groups * g->rows, reach = (g->x.taps - 1) * g->x.tap_in;
    const int inner = g->x.taps > 0 ? first_beyond(g, tl_min(0, reach), 0) : 0;
    const int outer = g->x.taps > 0 ? first_beyond(g, reach > 0 ? reach : 0, g->x.extent) : g->x.count;
    int lo, hi;
    tl_split(g->n * outs * g->y.count, 1, &lo, &hi);
    int q = lo % g->y.count, o = lo / g->y.count % outs, n = lo / g->y.count / outs;
    for (int rows; lo < hi; lo += rows, q = 0) {
        rows = tl_min(g->y.count - q, hi - lo);
        channel_rows(g, n, o, q, rows, inner, outer);
        if (++o == outs)
            o = 0, ++n;
    }
}
