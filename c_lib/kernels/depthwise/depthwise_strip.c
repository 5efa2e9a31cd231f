/* Up to three taps of one row of a depthwise weight gradient, and their sums over a block of any outputs. */
#include "tl_strip.h"

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

tl_strip tl_strip_at(const tl_conv2d *a, int item)
{
    const int thirds = (a->kw + TL_STRIP_TAPS - 1) / TL_STRIP_TAPS, kx = item % thirds * TL_STRIP_TAPS,
              ky = item / thirds % a->kh;
    const int o = item / thirds / a->kh, s = a->stride_w;
    tl_strip v = {
        .taps = tl_min(TL_STRIP_TAPS, a->kw - kx), .top = ky * a->dil_h - a->pad_h, .left = kx * a->dil_w - a->pad_w};
    const int last = v.left + (v.taps - 1) * a->dil_w;
    v.x = a->x + o / a->co * a->xp.c + v.top * a->xp.h + v.left;
    v.y = a->y + o * a->yp.c;
    v.w = a->w + o * a->w_co + ky * a->kw + kx;
    v.lo = v.left >= 0 ? 0 : clamp((s - 1 - v.left) / s, 0, a->wo);
    v.hi = last >= a->wd ? v.lo : clamp((a->wd - 1 - last) / s + 1, v.lo, a->wo);
    return v;
}

/* Outputs ox .. end - 1 of a row, not all of whose taps are inside the image. */
static void edge(const tl_conv2d *a, const tl_strip *v, const float *x, const float *y, int ox, int end, float *sum)
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
static void segment(const tl_conv2d *a, const tl_strip *v, const float *x, const float *y, int ox, int end, float *sum)
{
    const int lo = clamp(v->lo, ox, end), hi = clamp(v->hi, lo, end), d = a->dil_w, s = a->stride_w;
    const float *from = x + lo * s;
    if (ox < lo)
        edge(a, v, x, y, ox, lo, sum);
    inner(from, s, v->taps > 1 ? d : 0, v->taps > 2 ? 2 * d : v->taps > 1 ? d : 0, y + lo, hi - lo, sum);
    if (hi < end)
        edge(a, v, x, y, hi, end, sum);
}

void tl_strip_any(const tl_conv2d *a, const tl_strip *v, tl_output at, int kc, float *sum)
{
    const float *x = v->x + at.n * a->xp.n, *y = v->y + at.n * a->yp.n;
    sum[0] = sum[1] = sum[2] = 0.0f;
    for (int run; kc > 0; kc -= run, at.ox = 0, ++at.oy) {
        const int row = at.oy * a->stride_h;
        run = tl_min(a->wo - at.ox, kc);
        if ((unsigned)(v->top + row) < (unsigned)a->h)
            segment(a, v, x + row * a->xp.h, y + at.oy * a->yp.h, at.ox, at.ox + run, sum);
    }
}
