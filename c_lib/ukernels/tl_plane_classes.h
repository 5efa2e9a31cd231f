/* Input gradients of depthwise convolutions of stride 2: four classes of outputs with a quarter of the taps each;
 * internal to c_lib/kernels. */
#ifndef TL_PLANE_CLASSES_H
#define TL_PLANE_CLASSES_H
#include "tl_plane.h"

/* The axes of the four classes. */
typedef struct {
    tl_axis y[2], x[2];
} classes;

/* One class of rows of a plane's outputs, from the last one up and to the left. */
static __attribute__((noinline)) void class_rows(const tl_plane_out *rows, int taps)
{
    switch (taps) {
    case 0:
    case 1:
        tl_plane_out_rows_plain(rows, 1, 1);
        break;
    case 2:
        tl_plane_out_rows(rows, 2, 1);
        break;
    case 3:
        tl_plane_out_rows(rows, 3, 1);
        break;
    default:
        tl_plane_out_rows(rows, 4, 1);
    }
}

/* The taps of all classes, one after the other and each row by row. */
static __attribute__((noinline)) void class_taps(const classes *of, const tl_conv2d *a, int at, float *to)
{
    for (int class = 0; class < 4; ++class) {
        const tl_axis *y = &of->y[class >> 1], *x = &of->x[class & 1];
        int from = at + y->tap0 * a->kw + x->tap0;
        TL_ONE_POINTER(class) /* not four copies of this loop */
        for (int row = y->taps; row > 0; --row, from += 2 * a->kw)
            for (int tap = 0; tap < x->taps; ++tap)
                *to++ = tl_plane_tap(a, from + 2 * tap);
    }
}

/* Outputs of rows r.row .. r.end - 1 of one plane; `own` begins with dL/dy at row high and column right. */
static void all_classes(const tl_conv2d *a, const classes *of, const tl_plane_rows *r, const float *taps, float start,
                        tl_element *to, const float *own, int pitch, int high, int right)
{
    for (int ry = 0; ry < 2; ++ry) {
        const int first = (r->row - ry + 1) / 2, end = (r->end - ry + 1) / 2;
        const tl_axis *y = &of->y[ry];
        for (int rx = 0; rx < 2; ++rx) {
            const tl_axis *x = &of->x[rx];
            tl_plane_out rows = {.w = taps, .start = start, .rows = end - first, .count = x->count};
            const int top = high - (y->in0 + end - 1);
            taps += y->taps * x->taps;
            if (first >= end)
                continue;
            rows.in = own + top * pitch + right - (x->in0 + x->count - 1);
            rows.to = to + (2 * end - 2 + ry) * a->xp.h + 2 * x->count - 2 + rx;
            rows.above = high - (a->ho - 1) - top, rows.image_rows = a->ho;
            rows.kernel_rows = x->taps > 0 ? y->taps : 0, rows.pitch = rows.down = pitch;
            rows.out_step = -2, rows.out_down = -2 * a->xp.h;
            class_rows(&rows, x->taps);
        }
    }
}

/* Images of a channel, whose taps they share, follow each other. */
TL_PLANE void tl_plane_bw_x_s2(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci, high = (a->h - 1 + a->pad_h) >> 1, right = (a->wd - 1 + a->pad_w) >> 1;
    tl_copied c = {.top = high,
                   .left = right,
                   .rows = high + ((a->kh - 1 - a->pad_h) >> 1) + 1,
                   .columns = right + ((a->kw - 1 - a->pad_w) >> 1) + 4,
                   .turned = 1};
    float *own = (float *)a->scratch + tl_core_id() * c.rows * c.columns;
    float taps[TL_MOST_TAPS];
    int channel = -1;
    classes of;
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, a->h);
    TL_PROMISE(a->co == 1 && a->kw <= 8 && a->kh * a->kw <= TL_MOST_TAPS && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == 2 && a->stride_w == 2 && !a->accumulate);
    for (int i = 0; i < 2; ++i) {
        TL_ONE_POINTER(i) /* a loop: what finds an axis is long */
        of.y[i] = tl_axis_bw(i, a->h, a->ho, a->kh, 2, a->pad_h, 1);
        of.x[i] = tl_axis_bw(i, a->wd, a->wo, a->kw, 2, a->pad_w, 1);
    }
    if (r.lo < r.hi)
        tl_plane_clear(&c, a->yp.h, a->ho, a->wo, own);
    while (tl_plane_next(&r, a->h)) {
        const int i = r.plane / a->n, n = r.plane - i * a->n, group = i / a->ci;
        tl_plane_copy(&c, a->TL_READ(y) + n * a->yp.n + group * a->yp.c);
        if (i != channel)
            class_taps(&of, a, group * a->w_co + (i - group * a->ci) * a->w_ci, taps);
        channel = i;
        all_classes(a, &of, &r, taps, a->bias ? a->bias[i] : 0.0f, a->TL_READ(x) + n * a->xp.n + i * a->xp.c, own,
                    c.columns, high, right);
    }
}
#endif
