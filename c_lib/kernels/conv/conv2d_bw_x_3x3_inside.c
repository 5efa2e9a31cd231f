/* Input gradient of a 3 x 3 convolution of stride 1 without padding along rows: of threes of outputs, and of fours of
 * channels. The first four and the last four inputs of a row are tiles of their own. */
#include "tl_inside.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

static __attribute__((noinline)) void middle(tl_inside *t)
{
    tl_inside_tile(t, -1, TL_MIDDLE);
}

static __attribute__((noinline)) void left(tl_inside *t)
{
    tl_inside_tile(t, -1, TL_LEFT);
}

static __attribute__((noinline)) void right(tl_inside *t)
{
    tl_inside_tile(t, -1, TL_RIGHT);
}

void tl_conv2d_bw_x_3x3_inside_f32(const tl_conv2d *a)
{
    const int places = a->wo / 3;
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->wo % 3 == 0 && a->wo > 3 && a->wd == a->wo + 2 && a->ci % 4 == 0 && a->pad_w == 0);
    TL_PROMISE(a->w_ci == 9 && a->co <= TL_INSIDE_CHANS);
    int planned = -1, plan[TL_INSIDE_PLAN];
    tl_inside t = {.in_row = -4 * a->yp.h, .w_row = 36, .w_rest = 4 - 108, .out_c = 4 * a->xp.c, .plan = plan};
    for (tl_inside_items i = tl_inside_share(a, a->h, places, a->ci / 4); i.lo < i.hi; tl_inside_next(&i)) {
        /* Cores that share a float unit have tiles of their own; so they are not always in the loop at once. */
        const int turned = i.row + (i.tile & 1 ? a->h / 2 : 0), y = turned < a->h ? turned : turned - a->h;
        const int channel = i.group * a->ci + 4 * i.tile, row = y + a->pad_h;
        const int last = i.place == places - 1, wide = i.place == 0 || last ? 4 : 3;
        const int x = 3 * i.place + (i.place > 0), top = tl_max(0, row - a->ho + 1);
        const int rows = tl_min(3, row + 1) - top, first = last ? a->wo - 1 : x + wide - 1;
        if (planned != 4 * top + rows)
            tl_inside_plan(plan, a->co, top, rows), planned = 4 * top + rows;
        t.in_rest = t.in_row + (wide == 4 ? 12 : 16), t.in_next = 4 * (a->yp.c + rows * a->yp.h);
        t.w_next = 4 * (a->w_co - 3 * rows);
        t.in = a->y + i.n * a->yp.n + i.group * a->co * a->yp.c + (row - top) * a->yp.h + first;
        t.w = a->w + i.group * a->co * a->w_co + 4 * i.tile * 9 + 3 * top;
        t.out = a->x + i.n * a->xp.n + channel * a->xp.c + y * a->xp.h + x;
        tl_inside_onto(&t, a->bias ? a->bias + channel : NULL, a->accumulate, wide);
        if (i.place == 0)
            left(&t);
        else if (!last)
            middle(&t);
        else
            right(&t);
    }
}
