/* Weight gradient of kernels with three neighbouring taps a row, over rows of a multiple of four or two outputs (`by`,
 * a literal); internal to c_lib/kernels. Tiles of 4 output channels x the taps of a kernel row, channels fastest, then
 * kernel rows; each core takes a contiguous range. For some blocks at a time it copies what an input channel's kernel
 * rows meet, with zeros around, unless there are none, and a term loads one or two inputs and four gradients for 12
 * multiply-adds. Scratch: such a copy a core. */
#ifndef TL_CONV_BW_W_3_H
#define TL_CONV_BW_W_3_H
#include "tl_conv_bw_w.h" /* first: it sets how the whole file is compiled */
#include "tl_met.h"
#include "tl_terms.h"
#include "tl_threes_floats_xpulp.h"

enum { MOST_COPIED = 208 }; /* inputs of a channel, unless those of one block are more */

/* Blocks of outputs, and what they meet in one input channel. */
typedef struct {
    const tl_conv2d *a;
    const float *y;       /* the first output, in channel 0 of the group */
    const float *x;       /* its first input, with the zeros around */
    float *w;             /* the kernel of the group's channel 0 */
    int rows, run, pitch; /* outputs in rows of `run`, inputs in rows of `pitch` */
    int block;            /* rows of a block: the last one may have fewer */
    int begin;            /* the first ones: w is zeros before them */
} tl_met;

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
#define TL_THREE_TO_W(i) to[0] += c##i##0, to[1] += c##i##1, to[2] += c##i##2, to += w_m;

/* Sums of blocks for some tiles below each other, whose first four rows of gradients are y0 to y3, added to w. step, a
 * literal: from one output's inputs to the next one's. */
TL_BW_W void tl_three_tiles(const tl_met *v, const float *met, const float *y0, const float *y1, const float *y2,
                            const float *y3, float *w, int w_m, int tiles, int by, int step)
{
    const float *x;
    const int skip = v->a->stride_h * v->pitch - v->run * step, below = 4 * v->a->yp.c - v->rows * v->run;
#ifdef TL_XPULP_TILES
    const int groups = v->run / by, next = 4 * (skip - 1), y_next = 4 * below, w_bytes = 4 * w_m;
    const int lines = v->rows, most = v->block;
    int left;
    if (by == 4 && step == 1)
        TL_TILES_OF_THREE(TL_FOUR_OF_THREE, "140", "146");
    else if (by == 4)
        TL_TILES_OF_THREE(TL_FOUR_OF_THREE_S2, "146", "152");
    else if (step == 1)
        TL_TILES_OF_THREE(TL_TWO_OF_THREE, "72", "78");
    else
        TL_TILES_OF_THREE(TL_TWO_OF_THREE_S2, "74", "80");
#else
    for (; tiles > 0; --tiles, y0 += below, y1 += below, y2 += below, y3 += below) {
        float *to = w;
        x = met;
        for (int rows = v->rows; rows > 0; rows -= v->block) {
            TL_THREE_ROWS(TL_THREE_SUMS)
            for (int lines = tl_min(rows, v->block); lines > 0; --lines, x += skip)
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
            to = w;
            TL_THREE_ROWS(TL_THREE_TO_W)
        }
        w = to;
    }
#endif
}

/* Tiles first .. end - 1 of all kernel rows, for a block. */
typedef void (*tl_three_share)(const tl_met *v, int first, int end);

/* The last channels, if fewer than four, are added up aside; missing ones repeat the last. */
TL_BW_W void tl_three_multiply(const tl_met *v, int first, int end, int by, int step)
{
    const tl_conv2d *a = v->a;
    const int fours = a->co / 4, rest = a->co - 4 * fours, tiles = fours + (rest > 0), y_m = a->yp.c, w_m = a->w_co;
    float aside[12];
    for (int ky = first / tiles, tile = first - ky * tiles, count; first < end; first += count) {
        const int few = tile == fours, rows = few ? rest : 4;
        const float *y0 = v->y + 4 * tile * y_m, *y1 = rows > 1 ? y0 + y_m : y0, *y2 = rows > 2 ? y1 + y_m : y1;
        float *w = v->w + 3 * ky + 4 * tile * w_m;
        count = few ? 1 : tl_min(fours - tile, end - first);
        if (v->begin) {
            float *to = w;
            for (int left = few ? rest : 4 * count; left > 0; --left, to += w_m)
                to[0] = to[1] = to[2] = 0.0f;
        }
        for (int i = 0; few && i < 12; ++i)
            aside[i] = w[tl_min(i / 3, rest - 1) * w_m + i % 3];
        tl_three_tiles(v, v->x + ky * a->dil_h * v->pitch, y0, y1, y2, rows > 3 ? y2 + y_m : y2, few ? aside : w,
                       few ? 3 : w_m, count, by, step);
        for (int i = 0; few && i < 3 * rest; ++i)
            w[i / 3 * w_m + i % 3] = aside[i];
        tile += count;
        if (tile == tiles)
            tile = 0, ++ky;
    }
}

/* This core's share. */
TL_BW_W void tl_conv_bw_w_3(const tl_conv2d *a, int by, int step, tl_three_share multiply)
{
    const int each = (a->co + 3) / 4 * a->kh;
    const tl_blocks blocks = tl_blocks_of(a);
    const int pitch = (tl_min(a->wo, TL_KC) - 1) * step + 3, around = (a->kh - 1) * a->dil_h + 1 - a->stride_h;
    const int fit = (MOST_COPIED / pitch - around) / (a->stride_h * blocks.rows);
    const int inside = tl_met_inside(a), many = inside ? a->ho : tl_max(1, fit) * blocks.rows;
    const int most = tl_min(a->ho, blocks.across > 1 ? 1 : many); /* rows of outputs */
    float *met = inside ? NULL : (float *)a->scratch + tl_core_id() * (most * a->stride_h + around) * pitch;
    int lo, hi;
    (void)by; /* but for what is promised */
    TL_PROMISE(a->kw == 3 && a->dil_w == 1 && a->stride_w == step && a->wo % by == 0);
    TL_PROMISE(a->ho == 1 || a->yp.h == a->wo);
    tl_split_among(tl_team(a->team), a->groups * a->ci * each, 1, &lo, &hi);
    while (lo < hi) {
        const int channel = lo / each, first = lo - channel * each, end = tl_min(each, first + hi - lo);
        const int group = channel / a->ci, c = channel - group * a->ci;
        tl_output from = {0, 0, 0};
        tl_met v = {.a = a, .x = met, .block = blocks.rows, .begin = !a->accumulate};
        v.w = a->w + group * a->co * a->w_co + c * a->w_ci;
        for (; from.n < a->n; v.begin = 0) {
            v.rows = tl_min(most, a->ho - from.oy);
            v.run = blocks.across == 1 ? a->wo : tl_block_size(a, &blocks, &from);
            v.pitch = inside ? a->xp.h : (v.run - 1) * step + 3;
            v.y = a->y + group * a->co * a->yp.c + from.n * a->yp.n + from.oy * a->wo + from.ox;
            if (inside)
                v.x = tl_met_at(a, a->x + channel * a->xp.c, from);
            else
                tl_met_copy(a, a->x + channel * a->xp.c, from, v.rows, v.pitch, met);
            multiply(&v, first, end);
            for (int row = 0; row < v.rows; ++row)
                tl_output_skip(a, v.run, &from);
        }
        lo += end - first;
    }
}
#endif
