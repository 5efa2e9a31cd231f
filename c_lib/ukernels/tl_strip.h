/* Weight gradient of groups with one input channel: w[o][ky][kx] = sum over (n, oy, ox) of y * x;
 * internal to c_lib/kernels. An item of work is up to three neighbouring taps of one kernel row, which make three
 * chains; if there are few, they are split into blocks of the sum as well, which are added in their order once all are
 * done. Halves are widened as they are read. Scratch, where they are split: three sums a
 * block. */
#ifndef TL_STRIP_H
#define TL_STRIP_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_element.h"
#include "tl_outputs.h"

#define TL_STRIP_INLINE static inline __attribute__((always_inline))

enum { TL_STRIP_TAPS = 3 };

/* One item: where output (n, oy, ox) = 0 meets the first tap, and the outputs of a row that meet all taps inside. */
typedef struct {
    const tl_element *x, *y;
    float *w;
    int top, left; /* image row and column of output 0 and the first tap */
    int taps, lo, hi;
} tl_strip;

tl_strip tl_strip_at(const tl_conv2d *a, int item);

/* sum[t] = the chain of kc outputs of an image, from `at` on. */
void tl_strip_any(const tl_conv2d *a, const tl_strip *v, tl_output at, int kc, float *sum);

static inline int tl_strip_items(const tl_conv2d *a)
{
    return a->groups * a->co * a->kh * ((a->kw + TL_STRIP_TAPS - 1) / TL_STRIP_TAPS);
}

#define TL_TAPS3(scale, a, b, c)                                                                                       \
    {                                                                                                                  \
        const float factor = scale;                                                                                    \
        s0 = __builtin_fmaf(factor, a, s0), s1 = __builtin_fmaf(factor, b, s1), s2 = __builtin_fmaf(factor, c, s2);    \
    }

/* Three neighbouring taps of which at most one column on either side is outside the image, over `run` outputs of a row;
 * `column` is where the first tap meets the first of them. */
static inline __attribute__((always_inline)) void tl_strip_row(const tl_element *x, const tl_element *y, int column,
                                                               int extent, int step, int run, float *sum)
{
    float s0 = sum[0], s1 = sum[1], s2 = sum[2];
    for (; run >= 4; run -= 4, y += 4, x += 4 * step, column += 4 * step) {
        const float first = column < 0 ? 0.0f : TL_WIDENED(x[0]),
                    last = column + 3 * step + 2 < extent ? TL_WIDENED(x[3 * step + 2]) : 0.0f;
        TL_TAPS3(TL_WIDENED(y[0]), first, TL_WIDENED(x[1]), TL_WIDENED(x[2]))
        TL_TAPS3(TL_WIDENED(y[1]), TL_WIDENED(x[step]), TL_WIDENED(x[step + 1]), TL_WIDENED(x[step + 2]))
        TL_TAPS3(TL_WIDENED(y[2]), TL_WIDENED(x[2 * step]), TL_WIDENED(x[2 * step + 1]), TL_WIDENED(x[2 * step + 2]))
        TL_TAPS3(TL_WIDENED(y[3]), TL_WIDENED(x[3 * step]), TL_WIDENED(x[3 * step + 1]), last)
    }
    for (; run > 0; --run, ++y, x += step, column += step) {
        const float first = column < 0 ? 0.0f : TL_WIDENED(x[0]), last = column + 2 < extent ? TL_WIDENED(x[2]) : 0.0f;
        TL_TAPS3(TL_WIDENED(y[0]), first, TL_WIDENED(x[1]), last)
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2;
}

static inline int tl_strip_near(const tl_conv2d *a, const tl_strip *v)
{
    const int last = v->left + (a->wo - 1) * a->stride_w + 2;
    return v->taps == 3 && a->dil_w == 1 && a->stride_w <= 2 && v->left >= -1 && last <= a->wd && a->wd >= 2;
}

/* The same for strips that tl_strip_row can do. */
static inline __attribute__((always_inline)) void tl_strip_near_block(const tl_conv2d *a, const tl_strip *v,
                                                                      tl_output at, int kc, int step, float *sum)
{
    const int next_row = a->stride_h * a->xp.h;
    const tl_element *x = v->x + at.n * a->xp.n + at.oy * next_row, *y = v->y + at.n * a->yp.n + at.oy * a->yp.h;
    float part[TL_STRIP_TAPS] = {0.0f, 0.0f, 0.0f};
    for (int run, ox = at.ox, row = v->top + at.oy * a->stride_h; kc > 0; kc -= run, ox = 0) {
        run = tl_min(a->wo - ox, kc);
        if ((unsigned)row < (unsigned)a->h)
            tl_strip_row(x + step * ox, y + ox, v->left + step * ox, a->wd, step, run, part);
        x += next_row, y += a->yp.h, row += a->stride_h;
    }
    sum[0] = part[0], sum[1] = part[1], sum[2] = part[2];
}

TL_STRIP_INLINE void tl_strip_block(const tl_conv2d *a, const tl_strip *v, const tl_blocks *blocks, int index,
                                    float *sum)
{
    const tl_output at = tl_block_at(a, blocks, index);
    const int kc = tl_block_size(a, blocks, &at);
    if (!tl_strip_near(a, v))
        tl_strip_any(a, v, at, kc, sum);
    else if (a->stride_w == 1)
        tl_strip_near_block(a, v, at, kc, 1, sum);
    else
        tl_strip_near_block(a, v, at, kc, 2, sum);
}

TL_STRIP_INLINE void tl_strip_whole(const tl_conv2d *a)
{
    const int items = tl_strip_items(a);
    const tl_blocks blocks = tl_blocks_of(a);
    int lo, hi;
    tl_split(items, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const tl_strip v = tl_strip_at(a, item);
        float total[TL_STRIP_TAPS], sum[TL_STRIP_TAPS];
        for (int t = 0; t < TL_STRIP_TAPS; ++t)
            total[t] = t < v.taps && a->accumulate ? v.w[t] : 0.0f;
        for (int b = 0; b < a->n * blocks.image; ++b) {
            tl_strip_block(a, &v, &blocks, b, sum);
            for (int t = 0; t < TL_STRIP_TAPS; ++t)
                total[t] += sum[t];
        }
        for (int t = 0; t < v.taps; ++t)
            v.w[t] = total[t];
    }
}

TL_STRIP_INLINE void tl_strip_split(const tl_conv2d *a)
{
    const tl_blocks blocks = tl_blocks_of(a);
    const int items = tl_strip_items(a), count = a->n * blocks.image;
    float *part = a->scratch;
    int lo, hi;
    tl_split(items * count, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const tl_strip v = tl_strip_at(a, i / count);
        tl_strip_block(a, &v, &blocks, i % count, part + i * TL_STRIP_TAPS);
    }
    tl_barrier();
    tl_split(items, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const tl_strip v = tl_strip_at(a, item);
        for (int t = 0; t < v.taps; ++t) {
            float total = a->accumulate ? v.w[t] : 0.0f;
            for (int i = 0; i < count; ++i)
                total += part[(item * count + i) * TL_STRIP_TAPS + t];
            v.w[t] = total;
        }
    }
}
#endif
