/* Depthwise kernels with any number of rows, on a copy of a plane with its padding; internal to c_lib/kernels. Without
 * edges, four or six neighbouring outputs share the taps and most of the pixels of a kernel row. An input gradient
 * begins with the last pixel: its plane is copied upside down and from right to left, and then it is a convolution of
 * stride 1, or, of stride 2, four of them with a quarter of the taps. An item of work is an output row. Halves are
 * widened as they are copied, and results rounded as they are stored. Scratch: a plane a core. */
#ifndef TL_PLANE_H
#define TL_PLANE_H
#include "tl_gather.h"
#include "tl_plane_xpulp.h"
#include "tl_promise.h"

#define TL_PLANE static inline __attribute__((always_inline))

enum { TL_MOST_TAPS = 64 };

/* Most operations have one image and groups of one channel: without a division, which takes 35 cycles. */
static inline int tl_part_of(int at, int parts, int size)
{
    return parts == 1 ? 0 : size == 1 ? at : at / size;
}

static inline int tl_between(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* A copy of rows `top` .. and columns `left` .. of an image, zero outside; or, turned, from there upwards and
 * leftwards. */
typedef struct {
    int top, left, rows, columns, turned;
    int from, down, inside,
        count; /* of an image: the first element that is in it, to the next row, rows, and columns */
    float *to; /* where that goes */
} tl_copied;

/* Its rows before those of an image of h rows, and up to their end. */
static inline int tl_copied_begin(const tl_copied *c, int h)
{
    return c->turned ? c->top - (h - 1) : -c->top;
}

static inline int tl_copied_end(const tl_copied *c, int h)
{
    return c->turned ? c->top + 1 : h - c->top;
}

/* Finds out what is inside of images of h rows, and clears the copy at `to`. */
void tl_plane_clear(tl_copied *c, int pitch, int h, int wd, float *to);
/* The zeros stay there, for the same rows of another plane. */
void tl_plane_copy(const tl_copied *c, const tl_element *image);

/* A tap, or what halves keep of it. */
TL_PLANE float tl_plane_tap(const tl_conv2d *a, int at)
{
#ifdef TL_HALVES
    return tl_from_half(a->floats ? tl_to_half(a->w[at]) : a->w_f16[at]);
#else
    return a->w[at];
#endif
}

#ifdef TL_HALVES
void tl_plane_widen_taps(const tl_conv2d *a, int at, float *own);
#endif

/* Those of a kernel, where they lie or, of halves, at `own`. */
TL_PLANE const float *tl_plane_taps(const tl_conv2d *a, int at, float *own)
{
#ifdef TL_HALVES
    tl_plane_widen_taps(a, at, own);
    return own;
#else
    (void)own;
    return a->w + at;
#endif
}

enum { TL_MOST_LANES = 6 };

/* `count` outputs of a row, `lanes` at a time, the last ones fewer. Literals: lanes, taps, step (columns from output to
 * output). */
TL_PLANE void tl_plane_lanes(const float *in, int pitch, const float *w, int rows, float start, tl_element *to,
                             int out_step, int count, int lanes, int taps, int step)
{
    for (; count > 0; count -= lanes, in += lanes * step, to += lanes * out_step) {
        const float *p = in, *k = w;
        float s[TL_MOST_LANES] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        tl_element *at = to;
        for (int row = rows; row > 0; --row, p += pitch, k += taps) {
            TL_UNROLLED
            for (int t = 0; t < taps; ++t) {
                const float scale = k[t];
                TL_UNROLLED
                for (int i = 0; i < lanes; ++i)
                    s[i] = __builtin_fmaf(scale, p[t + i * step], s[i]);
            }
        }
        TL_UNROLLED
        for (int i = 0; i < lanes; ++i, at += out_step)
            if (i == 0 || count > i)
                *at = TL_ROUNDED(start + s[i]);
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

/* Output rows of a plane, and the first one's window. Kernel rows that meet no image row are left out. */
typedef struct {
    const float *in, *w;
    tl_element *to;
    float start;
    int rows, count, kernel_rows;
    int above, image_rows;  /* of the window: rows above the image; and of that, all in all */
    int pitch, down;        /* of `in`: from row to row, and from output row to output row */
    int out_step, out_down; /* of `to` */
} tl_plane_out;

/* Row by row. Six share more of what they load, where they are no more than fours. */
TL_PLANE void tl_plane_out_rows_plain(const tl_plane_out *o, int taps, int step)
{
    const float *in = o->in;
    tl_element *to = o->to;
    int above = o->above;
    for (int row = o->rows; row > 0; --row, in += o->down, to += o->out_down, above -= step) {
        const int first = tl_max(above, 0), rows = tl_min(above + o->image_rows, o->kernel_rows) - first;
        const float *p = in + first * o->pitch, *w = o->w + first * taps;
        if (tl_sixes(o->count) <= tl_fours(o->count))
            tl_plane_lanes(p, o->pitch, w, rows, o->start, to, o->out_step, o->count, 6, taps, step);
        else
            tl_plane_lanes(p, o->pitch, w, rows, o->start, to, o->out_step, o->count, 4, taps, step);
    }
}

#ifdef TL_XPULP_PLANES
/* Sixes and fours that end where fours alone would. The last ones, if they are fewer, go by a row of their own. */
TL_PLANE void tl_plane_strips(const tl_plane_out *o, int lanes, int from, int taps, int step)
{
    tl_plane_strip s = {.in = o->in + from * step, .w = o->w, .start = o->start, .rows = o->rows};
    s.to = o->to + from * o->out_step, s.above = o->above, s.image_rows = o->image_rows;
    s.kernel_rows = o->kernel_rows, s.pitch = 4 * o->pitch, s.down = 4 * o->down;
    s.out_step = (int)sizeof(tl_element) * o->out_step, s.out_down = (int)sizeof(tl_element) * o->out_down;
    const int whole = from + lanes <= o->count;
    tl_element own[TL_MOST_LANES], *to = s.to;
    if (!whole)
        s.to = own, s.rows = 1, s.out_step = sizeof(tl_element);
    for (int left = o->rows; left > 0; left -= s.rows, s.in += o->down, to += o->out_down) {
        tl_plane_strip_xpulp(&s, lanes, taps, step);
        for (int i = 0; !whole && from + i < o->count; ++i)
            to[i * o->out_step] = own[i];
    }
}

TL_PLANE void tl_plane_out_rows(const tl_plane_out *o, int taps, int step)
{
    for (int from = 0, left = o->count; left > 0;) {
        const int lanes = left < 5 || left == 7 || left == 8 ? 4 : 6;
        if (lanes == 6)
            tl_plane_strips(o, 6, from, taps, step);
        else
            tl_plane_strips(o, 4, from, taps, step);
        from += lanes, left -= lanes;
    }
}
#else
TL_PLANE void tl_plane_out_rows(const tl_plane_out *o, int taps, int step)
{
    tl_plane_out_rows_plain(o, taps, step);
}
#endif

/* Rows lo .. hi - 1 of `planes` planes with `height` rows each, plane by plane. again: the same rows as of the one
 * before. */
typedef struct {
    int lo, hi, plane, row, end, again;
} tl_plane_rows;

static inline tl_plane_rows tl_plane_share(int team, int planes, int height)
{
    tl_plane_rows r = {0, 0, 0, 0, 0, 0};
    tl_split_among(tl_team(team), planes * height, 1, &r.lo, &r.hi);
    return r;
}

static inline int tl_plane_next(tl_plane_rows *r, int height)
{
    if (r->lo >= r->hi)
        return 0;
    const int begins = r->end == 0, plane = begins ? r->lo / height : r->plane + 1;
    const int row = begins ? r->lo - plane * height : 0, end = tl_min(height, row + r->hi - r->lo);
    r->again = row == r->row && end == r->end, r->plane = plane, r->row = row, r->end = end;
    r->lo += r->end - r->row;
    return 1;
}

TL_PLANE void tl_plane_fw(const tl_conv2d *a, int taps, int step)
{
    const int outs = a->groups * a->co, pitch = (tl_fours(a->wo) - 1) * step + taps;
    float *own = (float *)a->scratch + tl_core_id() * ((a->ho - 1) * step + a->kh) * pitch, taps_of[TL_MOST_TAPS];
    tl_plane_rows r = tl_plane_share(a->team, a->n * outs, a->ho);
    TL_PROMISE(a->ci == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == step && a->stride_w == step);
    tl_copied c = {.left = -a->pad_w, .columns = pitch};
    while (tl_plane_next(&r, a->ho)) {
        const int n = r.plane / outs, o = r.plane - n * outs;
        c.top = r.row * step - a->pad_h, c.rows = (r.end - r.row - 1) * step + a->kh;
        if (!r.again)
            tl_plane_clear(&c, a->xp.h, a->h, a->wd, own);
        tl_plane_out rows = {.in = own, .start = a->bias ? a->bias[o] : 0.0f};
        rows.w = tl_plane_taps(a, o * a->w_co, taps_of);
        rows.to = a->TL_READ(y) + n * a->yp.n + o * a->yp.c + r.row * a->yp.h, rows.rows = r.end - r.row,
        rows.count = a->wo;
        rows.above = tl_copied_begin(&c, a->h), rows.image_rows = a->h;
        rows.kernel_rows = a->kh, rows.pitch = pitch, rows.down = step * pitch;
        rows.out_step = 1, rows.out_down = a->yp.h;
        tl_plane_copy(&c, a->TL_READ(x) + n * a->xp.n + o / a->co * a->xp.c);
        tl_plane_out_rows(&rows, taps, step);
    }
}

/* Of stride 1. */
TL_PLANE void tl_plane_bw_x(const tl_conv2d *a, int taps)
{
    const int ins = a->groups * a->ci, pitch = tl_fours(a->wd) - 1 + taps;
    float *own = (float *)a->scratch + tl_core_id() * (a->h - 1 + a->kh) * pitch, taps_of[TL_MOST_TAPS];
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, a->h);
    TL_PROMISE(a->co == 1 && a->kw == taps && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    tl_copied c = {.left = a->wd - 1 + a->pad_w, .columns = pitch, .turned = 1};
    while (tl_plane_next(&r, a->h)) {
        const int n = r.plane / ins, i = r.plane - n * ins, group = i / a->ci;
        c.top = r.end - 1 + a->pad_h, c.rows = r.end - r.row - 1 + a->kh;
        if (!r.again)
            tl_plane_clear(&c, a->yp.h, a->ho, a->wo, own);
        tl_plane_out rows = {.in = own, .start = a->bias ? a->bias[i] : 0.0f, .rows = r.end - r.row, .count = a->wd};
        rows.w = tl_plane_taps(a, group * a->w_co + (i - group * a->ci) * a->w_ci, taps_of);
        rows.to = a->TL_READ(x) + n * a->xp.n + i * a->xp.c + (r.end - 1) * a->xp.h + a->wd - 1;
        rows.above = tl_copied_begin(&c, a->ho), rows.image_rows = a->ho;
        rows.kernel_rows = a->kh, rows.pitch = rows.down = pitch, rows.out_step = -1, rows.out_down = -a->xp.h;
        tl_plane_copy(&c, a->TL_READ(y) + n * a->yp.n + group * a->yp.c);
        tl_plane_out_rows(&rows, taps, 1);
    }
}
#endif
