/* Input gradient of a 3 x 3 convolution of stride 1 without padding along rows: of threes of outputs, and of fours of
 * channels. The first four and the last four inputs of a row are tiles of their own. */
#include "tl_inside_back.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

void tl_conv2d_bw_x_3x3_inside_f32(const tl_conv2d *a)
{
    const int places = a->wo / 3;
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->wo % 3 == 0 && a->wo > 3 && a->wd == a->wo + 2 && a->ci % 4 == 0 && a->pad_w == 0);
    TL_PROMISE(a->w_ci == 9 && a->co <= TL_INSIDE_CHANS);
    tl_inside_planned planned;
    tl_inside t = tl_inside_back(a, &planned);
    for (tl_inside_items i = tl_inside_share(a, a->h, places, a->ci / 4); i.left > 0; tl_inside_next(&i)) {
        const int last = i.place == places - 1, wide = i.place == 0 || last ? 4 : 3;
        const int x = 3 * i.place + (i.place > 0), first = last ? a->wo - 1 : x + wide - 1;
        const tl_inside_place p = tl_inside_place_of(a, &i, 4, x, first, wide);
        t.in_rest = t.in_row + (wide == 4 ? 12 : 16);
        for (int row = i.row; row < i.end; ++row) {
            tl_inside_row(a, &p, tl_inside_turned(a, &i, row), &planned, &t);
            if (i.place == 0)
                tl_inside_tile(&t, -1, TL_LEFT);
            else if (!last)
                tl_inside_tile(&t, -1, TL_MIDDLE);
            else
                tl_inside_tile(&t, -1, TL_RIGHT);
        }
    }
}
