/* Input gradient of halves by few taps, over planes: class by class of the output positions modulo the stride, a
 * convolution with the kernel turned. Classes of one image share their planes where these are in scratch as a whole. */
#define TL_HALVES
#include "tl_planes.h"

enum { WORDS = 3264 }; /* of all planes: as in conv_planes.c */

static tl_axis rows_of(const tl_conv2d *a, int r)
{
    return tl_axis_turned(tl_axis_bw(r, a->h, a->ho, a->kh, a->stride_h, a->pad_h, 1));
}

static tl_axis columns_of(const tl_conv2d *a, int r)
{
    return tl_axis_turned(tl_axis_bw(r, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, 1));
}

/* How many rows or columns of the image so many outputs of a class meet, from `first` on, and the other classes. */
static void widen(const tl_axis *of, int count, int *first, int *end)
{
    if (of->taps == 0)
        return;
    const int behind = of->in0 + count - 1 + of->taps;
    *first = tl_min(*first, of->in0);
    *end = behind > *end ? behind : *end;
}

/* Whether there are such planes. */
static int shared(const tl_conv2d *a, int pairs, tl_planes_frame *frame)
{
    const int far = 1 << 20;
    int top = far, bottom = -far, left = far, right = -far;
    for (int r = 0; r < a->stride_h && r < a->h; ++r) {
        const tl_axis y = rows_of(a, r);
        widen(&y, y.count, &top, &bottom);
    }
    for (int r = 0; r < a->stride_w && r < a->wd; ++r) {
        const tl_axis x = columns_of(a, r);
        widen(&x, (x.count + 3) / 4 * 4, &left, &right);
    }
    *frame = (tl_planes_frame){.y = top, .x = left, .rows = bottom - top, .pitch = right - left};
    return bottom > top && right > left && pairs * frame->rows * frame->pitch <= WORDS;
}

void tl_conv2d_bw_x_planes_f16(const tl_conv2d *a)
{
    tl_gather g = tl_gather_bw_x(a);
    tl_planes_frame frame, *of_all = NULL;
    if (g.out_f16 && a->n * a->groups == 1 && a->stride_h * a->stride_w > 1 && shared(a, (g.chans + 1) / 2, &frame))
        of_all = &frame;
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = rows_of(a, ry);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = columns_of(a, rx);
            tl_conv_planes(&g, a->packed_rows, of_all);
        }
    }
}
