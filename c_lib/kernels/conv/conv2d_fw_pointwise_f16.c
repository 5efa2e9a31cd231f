/* Forward convolution of halves by one tap: of each image a product or, where its pixels are not one row, of each row
 * of outputs. */
#include "tl_conv.h"
#include "tl_pairs_product.h"
#include "tl_promise.h"

void tl_conv2d_fw_pointwise_f16(const tl_conv2d *a)
{
    const int images = a->ho == 1 ? 1 : a->n; /* one after the other */
    TL_PROMISE(a->kh * a->kw == 1 && a->pad_h == 0 && a->pad_w == 0);
    TL_PROMISE((a->ho - 1) * a->stride_h < a->h && (a->wo - 1) * a->stride_w < a->wd);
    tl_matmul p = {.batch = a->ho == 1 ? a->n : a->ho, .m = a->co, .n = a->wo, .k = a->ci};
    p.a_m = a->w_co, p.a_k = a->w_ci, p.b_k = a->xp.c, p.b_n = a->stride_w, p.c_m = a->yp.c, p.c_n = 1, p.i_m = 1;
    p.b_b = a->ho == 1 ? a->xp.n : a->stride_h * a->xp.h, p.c_b = a->ho == 1 ? a->yp.n : a->yp.h;
    p.floats = a->floats, p.halves = a->halves, p.accumulate = a->accumulate;
    p.team = a->team, p.tiles = a->packed_rows, p.scratch = a->scratch;
    for (int i = 0; i < images * a->groups; ++i) {
        const int n = i / a->groups, group = i - n * a->groups, w = group * a->co * a->w_co;
        const int y = n * a->yp.n + group * a->co * a->yp.c;
        if (a->floats)
            p.a = a->w + w;
        else
            p.a_f16 = a->w_f16 + w;
        if (a->halves)
            p.c_f16 = a->y_f16 + y;
        else
            p.c = a->y + y;
        p.b_f16 = a->x_f16 + n * a->xp.n + group * a->ci * a->xp.c;
        p.init = a->bias ? a->bias + group * a->co : NULL;
        tl_pairs_product(&p);
    }
}
