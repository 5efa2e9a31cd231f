/* Gradient of maxima over windows of neighbouring taps, numbered in a byte: each core takes whole rows of inputs,
 * clears them, and adds what each window gives to the tap that won, in the order of the windows. */
#include "tl_pool_scatter.h"

/* Windows of a row of outputs of which only rows k0..k1-1 and columns from..to-1 are there, counted from the first tap
 * of the first one. */
typedef struct {
    int k0, k1, from, to;
} there;

APART void scatter_some(float *x, int stride, const float *g, const uint8_t *tap, int n, const taps *w, there r)
{
    for (int ox = 0; ox < n; ox++, x += stride, r.from -= stride, r.to -= stride) {
        const int ky = tap[ox] * w->inverse >> 16, kx = tap[ox] - ky * w->kw;
        if (ky >= r.k0 && ky < r.k1 && kx >= r.from && kx < r.to)
            x[offset(w, tap[ox])] += g[ox];
    }
}

/* Input rows from..to-1 of a plane. */
INLINE void some_rows(const tl_pool2d *a, const axis *columns, const taps *w, int plane, int from, int to)
{
    const int s = a->stride_h, begin = smaller(columns->whole0, a->wo);
    const int end = larger(begin, smaller(columns->whole1, a->wo)), on = end * a->stride_w;
    float *x = a->x + plane * a->xp.plane;
    if (a->xp.row == a->wd)
        zeros(x, from * a->wd, to * a->wd);
    else
        for (int iy = from; iy < to; iy++)
            zeros(x + iy * a->xp.row, 0, a->wd);
    for (int oy = from + a->pad_h < a->kh ? 0 : (from + a->pad_h - a->kh) / s + 1; oy < a->ho; oy++) {
        const int top = oy * s - a->pad_h;
        if (top >= to)
            return;
        const float *g = a->y + plane * a->yp.plane + oy * a->yp.row;
        const uint8_t *tap = (const uint8_t *)a->tap + plane * a->tp.plane + oy * a->tp.row;
        float *line = x + top * a->xp.row - a->pad_w;
        there r = {from - top, to - top, a->pad_w, a->pad_w + a->wd};
        if (r.k0 > 0 || r.k1 < a->kh) {
            scatter_some(line, a->stride_w, g, tap, a->wo, w, r);
            continue;
        }
        if (begin > 0)
            scatter_some(line, a->stride_w, g, tap, begin, w, r);
        scatter(line + begin * a->stride_w, a->stride_w, g + begin, tap + begin, end - begin, w);
        if (end < a->wo) {
            r.from -= on;
            r.to -= on;
            scatter_some(line + on, a->stride_w, g + end, tap + end, a->wo - end, w, r);
        }
    }
}

void tl_maxpool2d_bw_near_f32(const tl_pool2d *a)
{
    const axis columns = columns_of(a, 0);
    const taps w = {a->kw, 65536 / a->kw + 1, a->xp.row - a->kw};
    int lo, hi;
    TL_PROMISE(a->tap_bytes == 1 && a->dil_h == 1 && a->dil_w == 1);
    tl_split(a->planes * a->h, 1, &lo, &hi);
    for (int plane = lo / a->h; lo < hi; plane++) {
        const int from = lo - plane * a->h, to = smaller(a->h, from + hi - lo);
        some_rows(a, &columns, &w, plane, from, to);
        lo += to - from;
    }
}
