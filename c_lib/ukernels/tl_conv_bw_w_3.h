/* Weight gradient of kernels with three neighbouring taps a row, over rows of a multiple of four or two outputs (`by`,
 * a literal); internal to c_lib/kernels. Tiles of 4 output channels x the taps of a kernel row, channels fastest, then
 * kernel rows; each core takes a contiguous range. Block by block it copies what an input channel's kernel rows meet,
 * with zeros around, and a term loads one or two inputs and four gradients for 12 multiply-adds. Scratch: such a copy a
 * core. */
#ifndef TL_CONV_BW_W_3_H
#define TL_CONV_BW_W_3_H
#include "tl_conv_bw_w.h" /* first: it sets how the whole file is compiled */
#include "tl_copy_rows.h"
#include "tl_terms.h"
#include "tl_threes_floats_xpulp.h"

/* A block of outputs, and what it meets in one input channel. */
typedef struct {
    const tl_conv2d *a;
    const float *y;       /* the block's first output, in channel 0 of the group */
    const float *x;       /* its first input, with zeros around */
    float *w;             /* the kernel of the group's channel 0 */
    int rows, run, pitch; /* outputs in rows of `run`, inputs in rows of `pitch` */
    int begin;            /* the first block, which overwrites w */
} tl_met;

/* What a block that begins at `from` meets in the input channel x, for every kernel row. */
static inline void tl_met_copy(const tl_conv2d *a, const tl_met *v, const float *x, tl_output from, float *dst)
{
    const int top = from.oy * a->stride_h - a->pad_h, column = from.ox * a->stride_w - a->pad_w;
    const int rows = (v->rows - 1) * a->stride_h + (a->kh - 1) * a->dil_h + 1, pitch = v->pitch;
    const int first = tl_min(tl_max(0, -top), rows), end = tl_max(first, tl_min(rows, a->h - top));
    const int left = tl_min(tl_max(0, -column), pitch), right = tl_max(left, tl_min(pitch, a->wd - column));
    float *to = dst + first * pitch, *behind = dst + end * pitch;
    for (; dst < to; ++dst) {
        *dst = 0.0f;
        TL_ONE_POINTER(dst) /* not the SDK's bytewise memset */
    }
    for (; dst < behind; dst += pitch) {
        for (int i = 0; i < left; ++i)
            dst[i] = 0.0f;
        for (int i = right; i < pitch; ++i)
            dst[i] = 0.0f;
    }
    for (behind += (rows - end) * pitch; dst < behind; ++dst) {
        *dst = 0.0f;
        TL_ONE_POINTER(dst)
    }
    x += from.n * a->xp.n + (top + first) * a->xp.h + column + left;
    tl_copy_rows(x, 1, a->xp.h, to + left, pitch, end - first, right - left);
}

/* clang-format off */
#define TL_TAP(i, tap, at) c##i##tap = __builtin_fmaf(w##i, x##at, c##i##tap); TL_HERE(c##i##tap)

/* Term t, whose inputs are in the registers p, q and r; `one` loads into p, `two` into q. */
#define TL_TERM_OF_THREE(t, p, q, r, one, two, more)                                                                   \
    TL_TAP(0, 0, p) TL_TAP(1, 0, p) TL_GET(w2, y2[t])                                                                  \
    TL_TAP(0, 1, q) TL_TAP(2, 0, p) TL_GET(w3, y3[t])                                                                  \
    TL_TAP(1, 1, q) TL_TAP(3, 0, p) one                                                                                \
    TL_TAP(2, 1, q) TL_TAP(3, 1, q) two                                                                                \
    TL_TAP(0, 2, r) TL_IF(more, TL_GET(w0, y0[t + 1]))                                                                 \
    TL_TAP(1, 2, r) TL_IF(more, TL_GET(w1, y1[t + 1]))                                                                 \
    TL_TAP(2, 2, r) TL_TAP(3, 2, r)
#define TL_FOUR_TERMS                                                                                                  \
    TL_TERM_OF_THREE(0, 0, 1, 2, TL_GET(x0, x[3]), , 1)                                                                \
    TL_TERM_OF_THREE(1, 1, 2, 0, TL_GET(x1, x[4]), , 1)                                                                \
    TL_TERM_OF_THREE(2, 2, 0, 1, TL_GET(x2, x[5]), , 1)                                                                \
    TL_TERM_OF_THREE(3, 0, 1, 2, , , 0)
#define TL_FOUR_TERMS_S2                                                                                               \
    TL_TERM_OF_THREE(0, 0, 1, 2, TL_GET(x0, x[4]), TL_GET(x1, x[3]), 1)                                                \
    TL_TERM_OF_THREE(1, 2, 1, 0, TL_GET(x2, x[6]), TL_GET(x1, x[5]), 1)                                                \
    TL_TERM_OF_THREE(2, 0, 1, 2, TL_GET(x0, x[8]), TL_GET(x1, x[7]), 1)                                                \
    TL_TERM_OF_THREE(3, 2, 1, 0, , , 0)
#define TL_TWO_TERMS                                                                                                   \
    TL_TERM_OF_THREE(0, 0, 1, 2, TL_GET(x0, x[3]), , 1)                                                                \
    TL_TERM_OF_THREE(1, 1, 2, 0, , , 0)
#define TL_TWO_TERMS_S2                                                                                                \
    TL_TERM_OF_THREE(0, 0, 1, 2, TL_GET(x0, x[4]), TL_GET(x1, x[3]), 1)                                                \
    TL_TERM_OF_THREE(1, 2, 1, 0, , , 0)
/* clang-format on */

#define TL_THREE_ROWS(what) what(0) what(1) what(2) what(3)
#define TL_THREE_SUMS(i) float c##i##0 = 0.0f, c##i##1 = 0.0f, c##i##2 = 0.0f;
#define TL_THREE_KEEP(i) sums[3 * i] = c##i##0, sums[3 * i + 1] = c##i##1, sums[3 * i + 2] = c##i##2;

/* Channels row .. row + 3 of kernel row ky; missing ones repeat the last. step, a literal: from one output's inputs to
 * the next one's. */
TL_BW_W void tl_three_tile(const tl_met *v, int ky, int row, int by, int step)
{
    const tl_conv2d *a = v->a;
    const int rows = tl_min(4, a->co - row), skip = a->stride_h * v->pitch - v->run * step;
    const float *x = v->x + ky * a->dil_h * v->pitch, *y0 = v->y + row * a->yp.c, *y1 = rows > 1 ? y0 + a->yp.c : y0;
    const float *y2 = rows > 2 ? y1 + a->yp.c : y1, *y3 = rows > 3 ? y2 + a->yp.c : y2;
    float sums[12];
    int lines = v->rows;
#ifdef TL_XPULP_TILES
    const int groups = v->run / by, next = 4 * (skip - 1);
    float *const kept = sums;
    if (by == 4 && step == 1)
        TL_LINES_OF_THREE(TL_FOUR_OF_THREE, "140");
    else if (by == 4)
        TL_LINES_OF_THREE(TL_FOUR_OF_THREE_S2, "146");
    else if (step == 1)
        TL_LINES_OF_THREE(TL_TWO_OF_THREE, "72");
    else
        TL_LINES_OF_THREE(TL_TWO_OF_THREE_S2, "74");
#else
    TL_THREE_ROWS(TL_THREE_SUMS)
    for (; lines > 0; --lines, x += skip) {
        for (int left = v->run; left > 0; left -= by) {
            float x0 = x[0], w0 = y0[0], w1 = y1[0], x1 = x[1], x2 = x[2], w2, w3;
            if (by == 4 && step == 1) {
                TL_FOUR_TERMS
            } else if (by == 4) {
                TL_FOUR_TERMS_S2
            } else if (step == 1) {
                TL_TWO_TERMS
            } else {
                TL_TWO_TERMS_S2
            }
            TL_POINT(x, x + by * step)
            TL_POINT(y0, y0 + by)
            TL_POINT(y1, y1 + by)
            TL_POINT(y2, y2 + by)
            TL_POINT(y3, y3 + by)
        }
    }
    TL_THREE_ROWS(TL_THREE_KEEP)
#endif
    float *to = v->w + 3 * ky + row * a->w_co;
    const float *from = sums;
    if (v->begin)
        for (int left = rows; left > 0; --left, from += 3, to += a->w_co)
            to[0] = 0.0f + from[0], to[1] = 0.0f + from[1], to[2] = 0.0f + from[2];
    else
        for (int left = rows; left > 0; --left, from += 3, to += a->w_co)
            to[0] += from[0], to[1] += from[1], to[2] += from[2];
}

/* Tiles first .. end - 1 of all kernel rows, for a block. */
typedef void (*tl_three_tiles)(const tl_met *v, int first, int end);

TL_BW_W void tl_three_multiply(const tl_met *v, int first, int end, int by, int step)
{
    const int tiles = (v->a->co + 3) / 4;
    for (int ky = first / tiles, tile = first - ky * tiles; first < end; ++ky, tile = 0)
        for (; tile < tiles && first < end; ++tile, ++first)
            tl_three_tile(v, ky, 4 * tile, by, step);
}

/* This core's share. */
TL_BW_W void tl_conv_bw_w_3(const tl_conv2d *a, int by, int step, tl_three_tiles multiply)
{
    const int each = (a->co + 3) / 4 * a->kh;
    const tl_blocks blocks = tl_blocks_of(a);
    const int columns = tl_min(a->wo, TL_KC), met_rows = (blocks.rows - 1) * a->stride_h + (a->kh - 1) * a->dil_h + 1;
    float *met = (float *)a->scratch + tl_core_id() * met_rows * ((columns - 1) * step + 3);
    int lo, hi;
    (void)by; /* but for what is promised */
    TL_PROMISE(a->kw == 3 && a->dil_w == 1 && a->stride_w == step && a->wo % by == 0);
    TL_PROMISE(a->ho == 1 || a->yp.h == a->wo);
    tl_split_among(tl_team(a->team), a->groups * a->ci * each, 1, &lo, &hi);
    while (lo < hi) {
        const int channel = lo / each, first = lo - channel * each, end = tl_min(each, first + hi - lo);
        const int group = channel / a->ci, c = channel - group * a->ci;
        tl_output from = {0, 0, 0};
        tl_met v = {.a = a, .x = met, .begin = !a->accumulate};
        v.w = a->w + group * a->co * a->w_co + c * a->w_ci;
        for (; from.n < a->n; v.begin = 0) {
            const int kc = tl_block_size(a, &blocks, &from);
            v.rows = blocks.across == 1 ? kc / a->wo : 1, v.run = blocks.across == 1 ? a->wo : kc;
            v.pitch = (v.run - 1) * step + 3;
            v.y = a->y + group * a->co * a->yp.c + from.n * a->yp.n + from.oy * a->wo + from.ox;
            tl_met_copy(a, &v, a->x + channel * a->xp.c, from, met);
            multiply(&v, first, end);
            for (int row = 0; row < v.rows; ++row)
                tl_output_skip(a, v.run, &from);
        }
        lo += end - first;
    }
}
#endif
