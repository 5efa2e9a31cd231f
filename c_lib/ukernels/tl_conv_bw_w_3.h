/* Weight gradient of kernels with three neighbouring taps a row, over rows of a multiple of four or two outputs (`by`, a
 * literal); internal to c_lib/kernels. Tiles of 4 output channels x the taps of a kernel row, channels fastest; each core
 * takes a contiguous range. Neighbouring outputs share most of their inputs, so a core packs, block by block, what
 * each four or two of them meet, and a term loads one or two inputs and four gradients for 12 multiply-adds. Scratch: a
 * panel a core. */
#ifndef TL_CONV_BW_W_3_H
#define TL_CONV_BW_W_3_H
#include "tl_conv_bw_w.h" /* first: it sets how the whole file is compiled */
#include "tl_terms.h"
#include "tl_threes_floats_xpulp.h"

#define TL_MET(by, step) (((by) - 1) * (step) + 3) /* inputs that so many neighbours meet */

/* A block of outputs, and one kernel row of one input channel. */
typedef struct {
    const tl_conv2d *a;
    const float *y; /* the block's first output, in channel 0 of the group */
    const float *x; /* packed */
    float *w;       /* the kernel row of the group's channel 0 */
    int kc;         /* outputs in the block */
    int begin;      /* the first block, which overwrites w */
} tl_kernel_row;

/* What count outputs of a row meet, four by four or two by two: columns column, column + 1, .. of an image row. */
TL_BW_W void tl_three_pack(const float *row, int extent, int column, int count, float *dst, int by, int step)
{
    const int span = TL_MET(by, step);
    for (row += column; count > 0; count -= by, column += by * step, row += by * step, dst += span) {
        TL_ONE_POINTER(dst)
        if (column >= -1 && column + span <= extent + 1) {
            const float first = column < 0 ? 0.0f : row[0], last = column + span > extent ? 0.0f : row[span - 1];
            for (int i = 1; i < span - 1; ++i)
                dst[i] = row[i];
            dst[0] = first, dst[span - 1] = last;
        } else {
            for (int i = 0; i < span; ++i) {
                TL_ONE_POINTER(i) /* a loop */
                dst[i] = (unsigned)(column + i) < (unsigned)extent ? row[i] : 0.0f;
            }
        }
    }
}

/* What the outputs of a block meet, whose kernel row is `top` below them; at: its first output, and then the next one's. */
TL_BW_W void tl_block_pack(const tl_conv2d *a, const float *x, int top, tl_output *at, int kc, float *dst, int by,
                           int step)
{
    for (int run; kc > 0; kc -= run, dst += run / by * TL_MET(by, step)) {
        const int row = at->oy * a->stride_h + top, inside = (unsigned)row < (unsigned)a->h;
        run = tl_min(a->wo - at->ox, kc);
        tl_three_pack(x + at->n * a->xp.n + row * a->xp.h, inside ? a->wd : 0, at->ox * step - a->pad_w, run, dst, by,
                      step);
        tl_output_skip(a, run, at);
    }
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
#ifdef TL_XPULP_TILES
#define TL_THREE(i, tap) c[3 * i + tap]
#else
#define TL_THREE(i, tap) c##i##tap
#endif
#define TL_THREE_SET(i)                                                                                                \
    if (i < rows)                                                                                                      \
        to[0] = 0.0f + TL_THREE(i, 0), to[1] = 0.0f + TL_THREE(i, 1), to[2] = 0.0f + TL_THREE(i, 2), to += a->w_co;
#define TL_THREE_ADD(i)                                                                                                \
    if (i < rows)                                                                                                      \
        to[0] += TL_THREE(i, 0), to[1] += TL_THREE(i, 1), to[2] += TL_THREE(i, 2), to += a->w_co;

/* Channels row .. row + 3; missing ones repeat the last. step, a literal: from one output's inputs to the next one's. */
TL_BW_W void tl_three_tile(const tl_kernel_row *v, int row, int by, int step)
{
    const tl_conv2d *a = v->a;
    const int rows = tl_min(4, a->co - row);
    const float *x = v->x, *y0 = v->y + row * a->yp.c, *y1 = rows > 1 ? y0 + a->yp.c : y0;
    const float *y2 = rows > 2 ? y1 + a->yp.c : y1, *y3 = rows > 3 ? y2 + a->yp.c : y2;
#ifdef TL_XPULP_TILES
    float c[12];
    tl_threes_xpulp(x, (const float *const[]){y0, y1, y2, y3}, v->kc / by, c, by, step);
#else
    TL_THREE_ROWS(TL_THREE_SUMS)
    for (int left = v->kc; left > 0; left -= by) {
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
        TL_POINT(x, x + TL_MET(by, step))
        TL_POINT(y0, y0 + by)
        TL_POINT(y1, y1 + by)
        TL_POINT(y2, y2 + by)
        TL_POINT(y3, y3 + by)
    }
#endif
    float *to = v->w + row * a->w_co;
    if (v->begin) {
        TL_THREE_ROWS(TL_THREE_SET)
    } else {
        TL_THREE_ROWS(TL_THREE_ADD)
    }
}

/* Channels row .. end - 1 of a block. */
typedef void (*tl_three_tiles)(const tl_kernel_row *v, int row, int end);
typedef void (*tl_three_block)(const tl_conv2d *a, const float *x, int top, tl_output *at, int kc, float *dst);

/* This core's share. */
TL_BW_W void tl_conv_bw_w_3(const tl_conv2d *a, int by, int step, tl_three_block pack, tl_three_tiles multiply)
{
    const int tiles = (a->co + 3) / 4, lines = a->ci * a->kh;
    const tl_blocks blocks = tl_blocks_of(a);
    float *packed = (float *)a->scratch + tl_core_id() * TL_PANEL;
    int lo, hi;
    (void)by; /* but for what is promised */
    TL_PROMISE(a->kw == 3 && a->dil_w == 1 && a->stride_w == step && a->wo % by == 0);
    TL_PROMISE(a->ho == 1 || a->yp.h == a->wo);
    (void)step;
    tl_split_among(tl_team(a->team), a->groups * lines * tiles, 1, &lo, &hi);
    while (lo < hi) {
        const int at = lo / tiles, first = lo % tiles, last = tl_min(tiles, first + hi - lo), group = at / lines;
        const int c = at % lines / a->kh, ky = at % lines % a->kh;
        tl_output from = {0, 0, 0};
        tl_kernel_row v = {.a = a, .x = packed, .begin = !a->accumulate};
        v.w = a->w + group * a->co * a->w_co + c * a->w_ci + 3 * ky;
        for (; from.n < a->n; v.begin = 0) {
            v.kc = tl_block_size(a, &blocks, &from);
            v.y = a->y + group * a->co * a->yp.c + from.n * a->yp.n + from.oy * a->wo + from.ox;
            pack(a, a->x + (group * a->ci + c) * a->xp.c, ky * a->dil_h - a->pad_h, &from, v.kc, packed);
            multiply(&v, 4 * first, tl_min(4 * last, a->co));
        }
        lo += last - first;
    }
}
#endif
