/* Weight gradient of halves by one tap, planes as one row of an even number of pixels, or one image: image by image a
 * product. */
#include "tl_conv.h"
#include "tl_pairs_product.h"
#include "tl_promise.h"

void tl_conv2d_bw_w_pointwise_f16(const tl_conv2d *a)
{
    TL_PROMISE(a->h * a->kh * a->kw == 1 && a->wd == a->wo && (a->n == 1 || a->wo % 2 == 0));
    tl_matmul p = {.batch = 1, .m = a->co, .n = a->ci, .k = a->wo, .a_m = a->yp.c, .a_k = 1, .b_n = a->xp.c, .b_k = 1};
    p.c_m = a->w_co, p.c_n = a->w_ci, p.team = a->team, p.scratch = a->scratch;
    for (int group = 0; group < a->groups; ++group)
        for (int n = 0; n < a->n; ++n) {
            p.a_f16 = a->y_f16 + n * a->yp.n + group * a->co * a->yp.c;
            p.b_f16 = a->x_f16 + n * a->xp.n + group * a->ci * a->xp.c;
            p.c = a->w + group * a->co * a->w_co, p.accumulate = n > 0 || a->accumulate;
            tl_pairs_product(&p);
        }
}
