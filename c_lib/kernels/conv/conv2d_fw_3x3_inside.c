/* Forward 3 x 3 convolution of stride 1 whose windows are all inside of the image, of whole threes of outputs and fours
 * of channels. */
#include "tl_inside.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

void tl_conv2d_fw_3x3_inside_f32(const tl_conv2d *a)
{
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_w == 1);
    TL_PROMISE(a->wo % 3 == 0 && a->co % 4 == 0 && a->pad_h <= 0 && a->pad_w <= 0);
    TL_PROMISE(a->ci <= TL_INSIDE_CHANS);
    TL_PROMISE(a->ho - 1 - a->pad_h + 2 * a->dil_h < a->h && a->wo + 2 - a->pad_w <= a->wd);
    int plan[TL_INSIDE_PLAN];
    tl_inside t = {.in_row = 4 * a->dil_h * a->xp.h,
                   .in_rest = 4 * (a->dil_h * a->xp.h - 4),
                   .in_next = 4 * (a->xp.c - 3 * a->dil_h * a->xp.h),
                   .w_row = 4 * a->w_co,
                   .w_rest = 4 * (1 - 3 * a->w_co),
                   .w_next = 4 * (a->w_ci - 9),
                   .out_c = 4 * a->yp.c,
                   .plan = plan};
    tl_inside_plan(plan, a->ci, 0, 3);
    for (tl_inside_items i = tl_inside_share(a, a->ho, a->wo / 3, a->co / 4); i.left > 0; tl_inside_next(&i)) {
        const int channel = i.group * a->co + 4 * i.tile;
        const float *bias = a->bias ? a->bias + channel : NULL;
        t.in = a->x + i.n * a->xp.n + i.group * a->ci * a->xp.c + (i.row - a->pad_h) * a->xp.h + 3 * i.place - a->pad_w;
        t.w = a->w + channel * a->w_co;
        t.out = a->y + i.n * a->yp.n + channel * a->yp.c + i.row * a->yp.h + 3 * i.place;
        for (int row = i.row; row < i.end; ++row, t.in += a->xp.h, t.out += a->yp.h) {
            tl_inside_onto(&t, bias, a->accumulate, 3);
            tl_inside_tile(&t, 1, TL_MIDDLE);
        }
    }
}
