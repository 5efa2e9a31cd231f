/* Weight gradient of halves by kernels of three taps a row, over rows of an even number of outputs. The team packs a
 * strip of rows: dL/dy of up to 32 channels, and of some input channels what each pair of outputs meets by three taps.
 * Image rows that one kernel row meets follow each other. Tiles of 4 output channels x a kernel row are shared out.
 * Scratch: the inputs, the gradients. */
#define TL_HALVES
#include "tl_tile_pairs.h"
#include "tl_pack_threes.h"
#include "tl_conv.h"
#include "tl_threes.h"

enum { INPUTS = 3072, GRADIENTS = 1600, MOST_TILES = 8 }; /* words */

/* What is done at a time. A row of the image is row `y / stride_h` of class `y % stride_h`, counted from the first
 * one. */
typedef struct {
    int group, n, y, rows, channel, tiles, input, inputs;
    int pairs, high, plane; /* pairs of outputs in a row, packed rows of a class, words of an input channel */
    int afresh;
    tl_pair *in, *gradients;
} part;

/* dst[3*i] = what outputs 2*i and 2*i + 1 meet by three taps; `from` is the row's first pixel, `at` the column that the
 * first output meets. */
static tl_pair *pack_row(const tl_half *from, int at, int step, int dil, int extent, int pairs, tl_pair *dst)
{
    for (const int span = 2 * dil + step + 1; pairs > 0; --pairs, at += 2 * step, dst += 3) {
        if (at >= 0 && at + span <= extent && dil == 1 && step <= 2) {
            const int inside = tl_min(pairs, ((extent - span - at) >> step) + 1);
            dst = tl_pack_threes(dst, from + at, step, inside);
            pairs -= inside, at += 2 * step * inside;
            if (pairs == 0)
                break;
        }
        for (int tap = 0; tap < 3; ++tap) {
            const int first = at + tap * dil, second = first + step;
            dst[tap] = tl_pair_of((unsigned)first < (unsigned)extent ? from[first] : 0,
                                  (unsigned)second < (unsigned)extent ? from[second] : 0);
        }
    }
    return dst;
}

static void pack_inputs(const tl_conv2d *a, const part *p)
{
    const int high = p->high, pairs = p->pairs, rows = a->stride_h * high, step = a->stride_w, dil = a->dil_w;
    const int down = a->stride_h, wide = a->wd, pad = a->pad_w, h = a->h, row_step = a->xp.h, channel_step = a->xp.c;
    const int top = p->y * down - a->pad_h;
    int lo, hi;
    tl_split(p->inputs * rows, 1, &lo, &hi);
    int c = lo / rows, row = lo - c * rows, of_class = row / high, y = top + (row - of_class * high) * down + of_class;
    const tl_half *x = a->x_f16 + p->n * a->xp.n + (p->group * a->ci + p->input + c) * channel_step;
    tl_pair *dst = p->in + lo * 3 * pairs;
    for (; lo < hi; ++lo) {
        if ((unsigned)y < (unsigned)h)
            dst = pack_row(x + y * row_step, -pad, step, dil, wide, pairs, dst);
        else
            for (int i = 3 * pairs; i > 0; --i)
                *dst++ = 0;
        y += down;
        if (y == top + of_class + high * down) {
            if (++of_class == down)
                of_class = 0, x += channel_step;
            y = top + of_class;
        }
    }
}

static void pack_gradients(const tl_conv2d *a, const part *p)
{
    int lo, hi;
    tl_split(p->tiles * p->rows, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int tile = i / p->rows, row = i - tile * p->rows, channel = p->channel + 4 * tile;
        const tl_half *y = a->y_f16 + p->n * a->yp.n + (p->group * a->co + channel) * a->yp.c;
        tl_pairs_pack(p->gradients + i * 4 * p->pairs, y + (p->y + row) * a->yp.h, a->yp.c, 1,
                      tl_min(4, a->co - channel), 2 * p->pairs);
    }
}

/* Sums of fewer than four channels, aside. */
static __attribute__((noinline)) void few(const part *p, const tl_threes *t, int rows)
{
    float aside[12], *w = t->w;
    tl_threes whole = *t;
    for (int i = 0; i < 12; ++i)
        aside[i] = i / 3 < rows && !p->afresh ? w[i / 3 * t->w_m + i % 3] : 0.0f;
    whole.w = aside, whole.w_m = 3, whole.afresh = 0, whole.tiles = 1;
    tl_tile_threes(&whole);
    for (int i = 0; i < 3 * rows; ++i)
        w[i / 3 * t->w_m + i % 3] = aside[i];
}

/* This core's kernel rows, channel tile by channel tile of each. */
static void share(const tl_conv2d *a, const part *p)
{
    const int size = p->rows * 4 * p->pairs, fours = (a->co - p->channel) / 4;
    tl_threes t = {.pairs = p->rows * p->pairs, .w_m = a->w_co, .afresh = p->afresh};
    int lo, hi;
    tl_split_among(tl_team(a->team), p->inputs * a->kh * p->tiles, 1, &lo, &hi);
    int row = lo / p->tiles, tile = lo - row * p->tiles, c = row / a->kh, ky = row - c * a->kh;
    for (int left = hi - lo; left > 0; tile = 0) {
        const int y = ky * a->dil_h, down = a->stride_h == 1 ? y : y / a->stride_h, of_class = y - down * a->stride_h;
        float *w = a->w + (p->group * a->co + p->channel) * a->w_co + (p->input + c) * a->w_ci + ky * 3;
        t.inputs = p->in + c * p->plane + (of_class * p->high + down) * 3 * p->pairs;
        t.gradients = p->gradients + tile * size;
        t.w = w + 4 * tile * a->w_co;
        const int end = tl_min(p->tiles, tile + left);
        t.tiles = tl_min(end, fours) - tile;
        left -= end - tile;
        if (t.tiles > 0)
            tl_tile_threes(&t);
        if (end > fours) {
            t.gradients = p->gradients + fours * size, t.w = w + 4 * fours * a->w_co;
            few(p, &t, a->co - p->channel - 4 * fours);
        }
        if (++ky == a->kh)
            ky = 0, ++c;
    }
}

void tl_conv2d_bw_w_3_f16(const tl_conv2d *a)
{
    const int all = (a->co + 3) / 4, pairs = a->wo / 2, beyond = (a->kh - 1) * a->dil_h / a->stride_h;
    const int tiles = tl_min(tl_min(all, MOST_TILES), GRADIENTS / (4 * pairs));
    const int most = tl_min(GRADIENTS / (4 * pairs * tiles), INPUTS / (3 * pairs * a->stride_h) - beyond);
    const int strips = (a->ho + most - 1) / most, strip = (a->ho + strips - 1) / strips; /* of rows, all alike */
    const int fit = INPUTS / (3 * pairs * a->stride_h * (strip + beyond)), passes = (a->ci + fit - 1) / fit;
    const int inputs = (a->ci + passes - 1) / passes;
    part p = {.pairs = pairs, .in = a->scratch};
    p.gradients = p.in + inputs * a->stride_h * (strip + beyond) * 3 * pairs;
    for (p.group = 0; p.group < a->groups; ++p.group)
        for (p.n = 0; p.n < a->n; ++p.n)
            for (p.y = 0; p.y < a->ho; p.y += strip) {
                p.rows = tl_min(strip, a->ho - p.y), p.high = p.rows + beyond;
                p.plane = a->stride_h * p.high * 3 * pairs;
                p.afresh = p.n == 0 && p.y == 0 && !a->accumulate;
                for (p.channel = 0; p.channel < a->co; p.channel += 4 * tiles) {
                    p.tiles = tl_min(tiles, all - p.channel / 4);
                    for (p.input = 0; p.input < a->ci; p.input += inputs) {
                        p.inputs = tl_min(inputs, a->ci - p.input);
                        if (p.input == 0)
                            pack_gradients(a, &p);
                        pack_inputs(a, &p);
                        tl_barrier();
                        share(a, &p);
                        tl_barrier();
                    }
                }
            }
}
