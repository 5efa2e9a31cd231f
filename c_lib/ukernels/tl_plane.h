/* Depthwise kernels with any number of rows, on a copy of a plane with its padding; internal to c_lib/kernels. Without
 * edges, four or six neighbouring outputs share the taps and most of the pixels of a kernel row. An input gradient begins
 * with the last pixel: its plane is copied upside down and from right to left, and then it is a convolution of stride 1,
 * or, of stride 2, four of them with a quarter of the taps. An item of work is an output row. Scratch: a plane a core. */
#ifndef TL_PLANE_H
#define TL_PLANE_H
#include "tl_gather.h"
#include "tl_promise.h"

#define TL_PLANE static inline __attribute__((always_inline))

enum { TL_MOST_TAPS = 64 };

/* A copy of rows `top` .. and columns `left` .. of an image, zero outside; or, turned, from there upwards and leftwards. */
typedef struct {
    int top, left, rows, columns, turned;
} tl_copied;

void tl_plane_copy(const tl_copied *c, const float *image, int pitch, int h, int wd, float *to);

enum { TL_MOST_LANES = 6 };

/* `count` outputs of a row, `lanes` at a time, the last ones fewer. Literals: lanes, taps, step (columns from output to
 * output). */
TL_PLANE void tl_plane_lanes(const float *in, int pitch, const float *w, int rows, float start, float *to, int out_step,
                             int count, int lanes, int taps, int step)
{
    for (; count > 0; count -= lanes, in += lanes * step, to += lanes * out_step) {
        const float *p = in, *k = w;
        float s[TL_MOST_LANES] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, *at = to;
        for (int row = rows; row > 0; --row, p += pitch, k += taps) {
            for (int t = 0; t < taps; ++t) {
                const float scale = k[t];
                for (int i = 0; i < lanes; ++i)
                    s[i] = __builtin_fmaf(scale, p[t + i * step], s[i]);
            }
        }
        for (int i = 0; i < lanes; ++i, at += out_step)
            if (i == 0 || count > i)
                *at = start + s[i];
    }
}

/* Outputs that are computed, some of them for nothing, when so many are at a time. */
static inline int tl_fours(int count)
{
    return (count + 3) / 4 * 4;
}

static inline int tl_sixes(int count)
{
    return (count + 5) / 6 * 6;
}

/* A row. Six share more of what they load, where they are no more than fours. */
TL_PLANE void tl_plane_row(const float *in, int pitch, const float *w, int rows, float start, float *to, int out_step,
                           int count, int taps, int step)
{
    if (tl_sixes(count) <= tl_fours(count))
        tl_plane_lanes(in, pitch, w, rows, start, to, out_step, count, 6, taps, step);
    else
        tl_plane_lanes(in, pitch, w, rows, start, to, out_step, count, 4, taps, step);
}

/* Rows lo .. hi - 1 of `planes` planes with `height` rows each, plane by plane. */
typedef struct {
    int lo, hi, plane, row, end;
} tl_plane_rows;

static inline tl_plane_rows tl_plane_share(int team, int planes, int height)
{
    tl_plane_rows r = {0, 0, 0, 0, 0};
    tl_split_among(tl_team(team), planes * height, 1, &r.lo, &r.hi);
    return r;
}

static inline int tl_plane_next(tl_plane_rows *r, int height)
{
    if (r->lo >= r->hi)
        return 0;
    r->plane = r->lo / height, r->row = r->lo - r->plane * height, r->end = tl_min(height, r->row + r->hi - r->lo);
    r->lo += r->end - r->row;
    return 1;
}

TL_PLANE void tl_plane_fw(const tl_conv2d *a, int taps, int step)
{
    const int outs = a->groups * a->co, pitch = (tl_fours(a->wo) - 1) * step + taps;
    float *own = (float *)a->scratch + tl_core_id() * ((a->ho - 1) * step + a->kh) * pitch;
    tl_plane_rows r = tl_plane_share(a->team, a->n * outs, a->ho);
    TL_PROMISE(a->ci == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == step && a->stride_w == step);
    while (tl_plane_next(&r, a->ho)) {
        const int n = r.plane / outs, o = r.plane - n * outs;
        const tl_copied c = {r.row * step - a->pad_h, -a->pad_w, (r.end - r.row - 1) * step + a->kh, pitch, 0};
        const float *w = a->w + o * a->w_co, start = a->bias ? a->bias[o] : 0.0f, *in = own;
        float *to = a->y + n * a->yp.n + o * a->yp.c + r.row * a->yp.h;
        tl_plane_copy(&c, a->x + n * a->xp.n + o / a->co * a->xp.c, a->xp.h, a->h, a->wd, own);
        for (int row = r.row; row < r.end; ++row, in += step * pitch, to += a->yp.h)
            tl_plane_row(in, pitch, w, a->kh, start, to, 1, a->wo, taps, step);
    }
}

/* Of stride 1. */
TL_PLANE void tl_plane_bw_x(const tl_conv2d *a, int taps)
{
    const int ins = a->groups * a->ci, pitch = tl_fours(a->wd) - 1 + taps;
    float *own = (float *)a->scratch + tl_core_id() * (a->h - 1 + a->kh) * pitch;
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, a->h);
    TL_PROMISE(a->co == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    while (tl_plane_next(&r, a->h)) {
        const int n = r.plane / ins, i = r.plane - n * ins, group = i / a->ci;
        const tl_copied c = {r.end - 1 + a->pad_h, a->wd - 1 + a->pad_w, r.end - r.row - 1 + a->kh, pitch, 1};
        const float *w = a->w + group * a->w_co + (i - group * a->ci) * a->w_ci, *in = own;
        const float start = a->bias ? a->bias[i] : 0.0f;
        float *to = a->x + n * a->xp.n + i * a->xp.c + (r.end - 1) * a->xp.h + a->wd - 1;
        tl_plane_copy(&c, a->y + n * a->yp.n + group * a->yp.c, a->yp.h, a->ho, a->wo, own);
        for (int row = r.row; row < r.end; ++row, in += pitch, to -= a->xp.h)
            tl_plane_row(in, pitch, w, a->kh, start, to, -1, a->wd, taps, 1);
    }
}
#endif
