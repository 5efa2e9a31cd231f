/* Input gradient of a depthwise convolution of stride 2: four classes of outputs with a quarter of the taps each. */
#include "tl_plane.h"

/* One class of rows `row` .. of a plane's outputs; in and to belong to its last output. */
static __attribute__((noinline)) void class_rows(const tl_gather *g, const float *in, int pitch, const float *w,
                                                 float start, float *to, int rows)
{
    for (; rows > 0; --rows, in += pitch, to -= 2 * g->out_p.h) {
        switch (g->x.taps) {
        case 0:
            tl_plane_row(in, pitch, w, 0, start, to, -2, g->x.count, 1, 1);
            break;
        case 1:
            tl_plane_row(in, pitch, w, g->y.taps, start, to, -2, g->x.count, 1, 1);
            break;
        case 2:
            tl_plane_row(in, pitch, w, g->y.taps, start, to, -2, g->x.count, 2, 1);
            break;
        case 3:
            tl_plane_row(in, pitch, w, g->y.taps, start, to, -2, g->x.count, 3, 1);
            break;
        default:
            tl_plane_row(in, pitch, w, g->y.taps, start, to, -2, g->x.count, 4, 1);
        }
    }
}

/* Outputs of rows r.row .. r.end - 1 of one plane; `own` begins with dL/dy at row high and column right. */
static void all_classes(const tl_conv2d *a, tl_gather *g, const tl_plane_rows *r, const float *w, float start,
                        float *to, const float *own, int pitch, int high, int right)
{
    float taps[TL_MOST_TAPS / 2]; /* of kernels with one column, half are in a class */
    for (int ry = 0; ry < 2; ++ry) {
        const int first = (r->row - ry + 1) / 2, end = (r->end - ry + 1) / 2;
        g->y = tl_axis_bw(ry, a->h, a->ho, a->kh, 2, a->pad_h, 1);
        for (int rx = 0; rx < 2 && first < end; ++rx) {
            g->x = tl_axis_bw(rx, a->wd, a->wo, a->kw, 2, a->pad_w, 1);
            for (int t = 0; t < g->y.taps * g->x.taps; ++t)
                taps[t] = w[(g->y.tap0 + 2 * (t / g->x.taps)) * a->kw + g->x.tap0 + 2 * (t % g->x.taps)];
            const float *in = own + (high - (g->y.in0 + end - 1)) * pitch + right - (g->x.in0 + g->x.count - 1);
            class_rows(g, in, pitch, taps, start, to + (2 * end - 2 + ry) * a->xp.h + 2 * g->x.count - 2 + rx,
                       end - first);
        }
    }
}

void tl_conv2d_bw_x_depthwise_s2_f32(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci, high = (a->h - 1 + a->pad_h) >> 1, right = (a->wd - 1 + a->pad_w) >> 1;
    const tl_copied c = {high, right, high + ((a->kh - 1 - a->pad_h) >> 1) + 1,
                         right + ((a->kw - 1 - a->pad_w) >> 1) + 4, 1};
    float *own = (float *)a->scratch + tl_core_id() * c.rows * c.columns;
    tl_gather g = tl_gather_bw_x(a);
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, a->h);
    TL_PROMISE(a->co == 1 && a->kw <= 8 && a->kh * a->kw <= TL_MOST_TAPS && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == 2 && a->stride_w == 2 && !a->accumulate);
    while (tl_plane_next(&r, a->h)) {
        const int n = r.plane / ins, i = r.plane - n * ins, group = i / a->ci;
        tl_plane_copy(&c, a->y + n * a->yp.n + group * a->yp.c, a->yp.h, a->ho, a->wo, own);
        all_classes(a, &g, &r, a->w + group * a->w_co + (i - group * a->ci) * a->w_ci, a->bias ? a->bias[i] : 0.0f,
                    a->x + n * a->xp.n + i * a->xp.c, own, c.columns, high, right);
    }
}
