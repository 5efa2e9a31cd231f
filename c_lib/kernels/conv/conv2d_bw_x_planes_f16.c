/* Input gradient of halves by few taps, over planes: of each class of the output positions modulo the stride, a
 * convolution with the kernel turned. Two by two classes of one image share their planes where these are in scratch as
 * a whole, and what is waited for. */
#define TL_HALVES
#include "tl_planes.h"

static tl_axis rows_of(const tl_conv2d *a, int r)
{
    return tl_axis_turned(tl_axis_bw(r, a->h, a->ho, a->kh, a->stride_h, a->pad_h, 1));
}

static tl_axis columns_of(const tl_conv2d *a, int r)
{
    return tl_axis_turned(tl_axis_bw(r, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, 1));
}

/* Where what two classes meet begins in the image, and how many rows or columns it is of; outputs in whole fours or
 * one by one. */
static int meet(const tl_axis *of, int fours, int *first)
{
    int end = -1;
    *first = 0;
    for (int r = 0; r < 2; ++r)
        if (of[r].taps > 0 && of[r].count > 0) {
            const int behind = of[r].in0 + (of[r].count + fours - 1) / fours * fours - 1 + of[r].taps;
            *first = end < 0 ? of[r].in0 : tl_min(*first, of[r].in0);
            end = tl_max(end, behind);
        }
    return end - *first;
}

/* All classes, for some channels at a time. */
static void together(const tl_conv2d *a, tl_gather *g, tl_planes_part *p)
{
    const int packed = 2 * (a->packed_rows ? a->packed_rows : 16), size = 4 * p->pairs * a->kh * a->kw;
    const int most = tl_min(packed, 4 * (size < TL_PLANES_WEIGHTS ? TL_PLANES_WEIGHTS / size : 1));
    tl_pair *const weights = p->planes + p->pairs * p->plane;
    for (p->channel = 0; p->channel < g->rows; p->channel += most) {
        p->tiles = (tl_min(most, g->rows - p->channel) + 3) / 4;
        if (p->channel == 0)
            tl_planes_pack(g, p);
        for (int sharing = 0; sharing < 2; ++sharing) {
            p->weights = weights;
            for (int which = 0; which < 4; ++which, p->weights += p->tiles * p->size) {
                g->y = rows_of(a, which / 2), g->x = columns_of(a, which % 2);
                p->rows = g->y.count, p->panels = (g->x.count + 3) / 4;
                p->taps = g->y.taps * g->x.taps, p->size = 4 * p->pairs * p->taps;
                if (p->rows * p->panels == 0)
                    continue;
                if (p->taps > 0 && !sharing)
                    tl_planes_weights(g, p);
                else if (p->taps > 0)
                    tl_planes_share(g, p);
                else if (p->channel == 0 && sharing)
                    tl_conv_fill(g);
            }
            tl_barrier();
        }
    }
}

/* Whether all is in scratch at once. Apart, so that the axes are on the stack here alone. */
static __attribute__((noinline)) int shared(const tl_conv2d *a, const tl_gather *g, tl_planes_part *p)
{
    const tl_axis ys[] = {rows_of(a, 0), rows_of(a, 1)}, xs[] = {columns_of(a, 0), columns_of(a, 1)};
    const int high = meet(ys, 1, &p->top);
    p->pairs = (g->chans + 1) / 2, p->planes = g->scratch;
    p->pitch = meet(xs, 4, &p->left), p->plane = high * p->pitch;
    return high >= 1 && p->pitch >= 1 && p->pairs * p->plane <= TL_PLANES_WORDS;
}

/* Whether that is done. */
static __attribute__((noinline)) int two_by_two(const tl_conv2d *a, tl_gather *g)
{
    tl_planes_part p = {0};
    if (!shared(a, g, &p))
        return 0;
    g->y = rows_of(a, 0), g->x = columns_of(a, 0);
    together(a, g, &p);
    return 1;
}

/* Apart, so that what it loads is off the stack before the deepest calls begin. */
static __attribute__((noinline)) tl_gather made(const tl_conv2d *a)
{
    return tl_gather_bw_x(a);
}

void tl_conv2d_bw_x_planes_f16(const tl_conv2d *a)
{
    tl_gather g = made(a);
    const int twos = g.out_f16 && a->n * a->groups == 1 && a->stride_h == 2 && a->stride_w == 2;
    if (twos && two_by_two(a, &g))
        return;
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = rows_of(a, ry);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = columns_of(a, rx);
            tl_conv_planes(&g, a->packed_rows);
        }
    }
}
