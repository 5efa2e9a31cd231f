/* Weight gradient of groups with one input channel: w[o][ky][kx] = sum over the flat index (n, oy, ox) of y * x. An
 * item of work is up to three neighbouring taps of one kernel row, which make three chains; if there are few, they are
 * split into blocks of the sum as well, which are added in their order once all are done. */
#include "tl_gather.h"

enum { TAPS = 3 };

/* One item: where output (n, oy, ox) = 0 meets the first tap, and the outputs of a row that meet all taps inside. */
typedef struct {
    const float *x, *y;
    float *w;
    int top, left; /* image row and column of output 0 and the first tap */
    int taps, lo, hi;
} strip;

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static strip strip_at(const tl_conv2d *a, int item)
{
    const int thirds = (a->kw + TAPS - 1) / TAPS, kx = item % thirds * TAPS, ky = item / thirds % a->kh;
    const int o = item / thirds / a->kh, s = a->stride_w;
    strip v = {.taps = tl_min(TAPS, a->kw - kx), .top = ky * a->dil_h - a->pad_h, .left = kx * a->dil_w - a->pad_w};
    const int last = v.left + (v.taps - 1) * a->dil_w;
    v.x = a->x + o / a->co * a->xp.c + v.top * a->xp.h + v.left;
    v.y = a->y + o * a->yp.c;
    v.w = a->w + o * a->w_co + ky * a->kw + kx;
    v.lo = v.left >= 0 ? 0 : clamp((s - 1 - v.left) / s, 0, a->wo);
    v.hi = last >= a->wd ? v.lo : clamp((a->wd - 1 - last) / s + 1, v.lo, a->wo);
    return v;
}

/* Outputs ox .. end - 1 of a row, not all of whose taps are inside the image. */
static void edge(const tl_conv2d *a, const strip *v, const float *x, const float *y, int ox, int end, float *sum)
{
    for (; ox < end; ++ox)
        for (int t = 0; t < v->taps; ++t)
            if ((unsigned)(v->left + ox * a->stride_w + t * a->dil_w) < (unsigned)a->wd)
                sum[t] = __builtin_fmaf(y[ox], x[ox * a->stride_w + t * a->dil_w], sum[t]);
}

/* Taps that do not exist repeat the last one. */
static void inner(const float *x, int step, int tap1, int tap2, const float *y, int count, float *sum)
{
    float s0 = sum[0], s1 = sum[1], s2 = sum[2];
    for (; count > 0; --count, x += step) {
        const float scale = *y++;
        s0 = __builtin_fmaf(scale, x[0], s0);
        s1 = __builtin_fmaf(scale, x[tap1], s1);
        s2 = __builtin_fmaf(scale, x[tap2], s2);
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2;
}

/* Outputs ox .. end - 1 of one row. */
static void segment(const tl_conv2d *a, const strip *v, const float *x, const float *y, int ox, int end, float *sum)
{
    const int lo = clamp(v->lo, ox, end), hi = clamp(v->hi, lo, end), d = a->dil_w, s = a->stride_w;
    const float *from = x + lo * s;
    if (ox < lo)
        edge(a, v, x, y, ox, lo, sum);
    inner(from, s, v->taps > 1 ? d : 0, v->taps > 2 ? 2 * d : v->taps > 1 ? d : 0, y + lo, hi - lo, sum);
    if (hi < end)
        edge(a, v, x, y, hi, end, sum);
}

#define TL_TAPS3(scale, a, b, c)                                                                                       \
    {                                                                                                                  \
        const float factor = scale;                                                                                    \
        s0 = __builtin_fmaf(factor, a, s0), s1 = __builtin_fmaf(factor, b, s1), s2 = __builtin_fmaf(factor, c, s2);    \
    }

/* Three neighbouring taps of which at most one column on either side is outside the image, over `run` outputs of a row;
 * `column` is where the first tap meets the first of them. */
static inline __attribute__((always_inline)) void row3(const float *x, const float *y, int column, int extent, int step,
                                                       int run, float *sum)
{
    float s0 = sum[0], s1 = sum[1], s2 = sum[2];
    for (; run >= 4; run -= 4, y += 4, x += 4 * step, column += 4 * step) {
        const float first = column < 0 ? 0.0f : x[0], last = column + 3 * step + 2 < extent ? x[3 * step + 2] : 0.0f;
        TL_TAPS3(y[0], first, x[1], x[2])
        TL_TAPS3(y[1], x[step], x[step + 1], x[step + 2])
        TL_TAPS3(y[2], x[2 * step], x[2 * step + 1], x[2 * step + 2])
        TL_TAPS3(y[3], x[3 * step], x[3 * step + 1], last)
    }
    for (; run > 0; --run, ++y, x += step, column += step) {
        const float first = column < 0 ? 0.0f : x[0], last = column + 2 < extent ? x[2] : 0.0f;
        TL_TAPS3(y[0], first, x[1], last)
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2;
}

static int is_row3(const tl_conv2d *a, const strip *v)
{
    const int last = v->left + (a->wo - 1) * a->stride_w + 2;
    return v->taps == 3 && a->dil_w == 1 && a->stride_w <= 2 && v->left >= -1 && last <= a->wd && a->wd >= 2;
}

/* sum[t] = the chain of terms k .. k + kc - 1, for strips that row3 can do. */
static inline __attribute__((always_inline)) void near_block(const tl_conv2d *a, const strip *v, int k, int kc,
                                                             int step, float *sum)
{
    const int wo = a->wo, line = k / wo, next_row = a->stride_h * a->xp.h;
    int ox = k - line * wo, n = line / a->ho, oy = line - n * a->ho, at = v->top + oy * a->stride_h;
    const float *x = v->x + n * a->xp.n + oy * next_row, *y = v->y + n * a->yp.n + oy * a->yp.h;
    float part[TAPS] = {0.0f, 0.0f, 0.0f};
    for (int run; kc > 0; kc -= run, ox = 0) {
        run = tl_min(wo - ox, kc);
        if ((unsigned)at < (unsigned)a->h)
            row3(x + step * ox, y + ox, v->left + step * ox, a->wd, step, run, part);
        x += next_row, y += a->yp.h, at += a->stride_h;
        if (++oy == a->ho) {
            oy = 0, ++n, at = v->top;
            x = v->x + n * a->xp.n, y = v->y + n * a->yp.n;
        }
    }
    sum[0] = part[0], sum[1] = part[1], sum[2] = part[2];
}

static void any_block(const tl_conv2d *a, const strip *v, int k, int kc, float *sum)
{
    int ox = k % a->wo, oy = k / a->wo % a->ho, n = k / a->wo / a->ho;
    sum[0] = sum[1] = sum[2] = 0.0f;
    for (int run; kc > 0; kc -= run, ox = 0) {
        const int row = oy * a->stride_h;
        run = tl_min(a->wo - ox, kc);
        if ((unsigned)(v->top + row) < (unsigned)a->h)
            segment(a, v, v->x + n * a->xp.n + row * a->xp.h, v->y + n * a->yp.n + oy * a->yp.h, ox, ox + run, sum);
        if (++oy == a->ho)
            oy = 0, ++n;
    }
}

static void block(const tl_conv2d *a, const strip *v, int k, int kc, float *sum)
{
    if (!is_row3(a, v))
        any_block(a, v, k, kc, sum);
    else if (a->stride_w == 1)
        near_block(a, v, k, kc, 1, sum);
    else
        near_block(a, v, k, kc, 2, sum);
}

static void whole_sums(const tl_conv2d *a, int items)
{
    const int terms = a->n * a->ho * a->wo;
    int lo, hi;
    tl_split(items, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const strip v = strip_at(a, item);
        float total[TAPS], sum[TAPS];
        for (int t = 0; t < TAPS; ++t)
            total[t] = t < v.taps && a->accumulate ? v.w[t] : 0.0f;
        for (int k = 0; k < terms; k += TL_KC) {
            block(a, &v, k, tl_min(TL_KC, terms - k), sum);
            for (int t = 0; t < TAPS; ++t)
                total[t] += sum[t];
        }
        for (int t = 0; t < v.taps; ++t)
            v.w[t] = total[t];
    }
}

static void split_sums(const tl_conv2d *a, int items)
{
    const int terms = a->n * a->ho * a->wo, blocks = (terms + TL_KC - 1) / TL_KC;
    float *part = a->scratch;
    int lo, hi;
    tl_split(items * blocks, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const strip v = strip_at(a, i / blocks);
        const int k = i % blocks * TL_KC;
        block(a, &v, k, tl_min(TL_KC, terms - k), part + i * TAPS);
    }
    tl_barrier();
    tl_split(items, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const strip v = strip_at(a, item);
        for (int t = 0; t < v.taps; ++t) {
            float total = a->accumulate ? v.w[t] : 0.0f;
            for (int i = 0; i < blocks; ++i)
                total += part[(item * blocks + i) * TAPS + t];
            v.w[t] = total;
        }
    }
}

void tl_depthwise_bw_w(const tl_conv2d *a)
{
    const int items = a->groups * a->co * a->kh * ((a->kw + TAPS - 1) / TAPS);
    if (tl_depthwise_splits(a, tl_team(a->team)))
        split_sums(a, items);
    else
        whole_sums(a, items);
}
