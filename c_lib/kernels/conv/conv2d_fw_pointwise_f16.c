/* Forward convolution of halves by one tap, planes as one row: of each image a product. */
#include "tl_conv.h"
#include "tl_pairs_product.h"
#include "tl_promise.h"

void tl_conv2d_fw_pointwise_f16(const tl_conv2d *a)
{
    TL_PROMISE(a->h * a->kh * a->kw == 1 && a->wd == a->wo);
    tl_matmul p = {.batch = a->n, .m = a->co, .n = a->wo, .k = a->ci};
    p.a_m = a->w_co, p.a_k = a->w_ci, p.b_b = a->xp.n, p.b_k = a->xp.c, p.b_n = 1;
    p.c_b = a->yp.n, p.c_m = a->yp.c, p.c_n = 1, p.i_m = 1;
    p.floats = a->floats, p.halves = a->halves, p.accumulate = a->accumulate;
    p.team = a->team, p.tiles = a->packed_rows, p.scratch = a->scratch;
    for (int group = 0; group < a->groups; ++group) {
        const int w = group * a->co * a->w_co, y = group * a->co * a->yp.c;
        if (a->floats)
            p.a = a->w + w;
        else
            p.a_f16 = a->w_f16 + w;
        if (a->halves)
            p.c_f16 = a->y_f16 + y;
        else
            p.c = a->y + y;
        p.b_f16 = a->x_f16 + group * a->ci * a->xp.c;
        p.init = a->bias ? a->bias + group * a->co : NULL;
        tl_pairs_product(&p);
    }
}
