/* Input gradient of a 3 x 3 convolution of stride 1 without padding along rows, of rows of eight inputs, and of twos of
 * channels. */
#include "tl_inside_back.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

void tl_conv2d_bw_x_3x3_eight_f32(const tl_conv2d *a)
{
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->wo == 6 && a->wd == 8 && a->ci % 2 == 0 && a->pad_w == 0);
    TL_PROMISE(a->w_ci == 9 && a->co <= TL_INSIDE_CHANS);
    tl_inside_planned planned;
    tl_inside t = tl_inside_back(a, &planned);
    t.in_rest = t.in_row + 20;
    for (tl_inside_items i = tl_inside_share(a, a->h, 1, a->ci / 2); i.left > 0; tl_inside_next(&i)) {
        const tl_inside_place p = tl_inside_place_of(a, &i, 2, 0, 5, 8);
        for (int row = i.row; row < i.end; ++row) {
            tl_inside_row(a, &p, tl_inside_turned(a, &i, row), &planned, &t);
            tl_inside_tile(&t, -1, TL_WHOLE);
        }
    }
}
