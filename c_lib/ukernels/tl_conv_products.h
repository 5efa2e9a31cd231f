/* Convolutions of halves by one tap as products, one of two functions for all of them; internal to c_lib/kernels. */
#ifndef TL_CONV_PRODUCTS_H
#define TL_CONV_PRODUCTS_H
#include "tl_conv.h"
#include "tl_matmul.h"
#include "tl_promise.h"

#define TL_INTO static inline __attribute__((always_inline))
typedef void tl_conv_product(const tl_matmul *);

/* The weights from w on, and the results from `at` on, of one or the other type. */
TL_INTO void tl_lie_at(tl_matmul *p, const tl_conv2d *a, int w, float *const *floats, tl_half *const *halves, int at)
{
    if (a->floats)
        p->a = a->w + w;
    else
        p->a_f16 = a->w_f16 + w;
    if (a->halves)
        p->c_f16 = *halves + at;
    else
        p->c = *floats + at;
}

/* Forward: of each image a product or, where its pixels are not one row, of each row of outputs. */
TL_INTO void tl_forward_products(const tl_conv2d *a, tl_conv_product *product)
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
        tl_lie_at(&p, a, w, &a->y, &a->y_f16, y);
        p.b_f16 = a->x_f16 + n * a->xp.n + group * a->ci * a->xp.c;
        p.init = a->bias ? a->bias + group * a->co : NULL;
        if (i > 0)
            tl_barrier(); /* the scratch of the one before */
        product(&p);
    }
}

/* Input gradient, planes as one row: of all images a product. */
TL_INTO void tl_input_products(const tl_conv2d *a, tl_conv_product *product)
{
    TL_PROMISE(a->h * a->kh * a->kw == 1 && a->wd == a->wo);
    tl_matmul p = {.batch = a->n, .m = a->ci, .n = a->wd, .k = a->co};
    p.a_m = a->w_ci, p.a_k = a->w_co, p.b_b = a->yp.n, p.b_k = a->yp.c, p.b_n = 1;
    p.c_b = a->xp.n, p.c_m = a->xp.c, p.c_n = 1, p.i_m = 1;
    p.floats = a->floats, p.halves = a->halves, p.accumulate = a->accumulate;
    p.team = a->team, p.tiles = a->packed_rows, p.scratch = a->scratch;
    for (int group = 0; group < a->groups; ++group) {
        const int w = group * a->co * a->w_co, x = group * a->ci * a->xp.c;
        tl_lie_at(&p, a, w, &a->x, &a->x_f16, x);
        p.b_f16 = a->y_f16 + group * a->co * a->yp.c;
        p.init = a->bias ? a->bias + group * a->ci : NULL;
        if (group > 0)
            tl_barrier();
        product(&p);
    }
}

/* Weight gradient, planes as one row of an even number of pixels, or one image: image by image a product. */
TL_INTO void tl_weight_products(const tl_conv2d *a, tl_conv_product *product)
{
    TL_PROMISE(a->h * a->kh * a->kw == 1 && a->wd == a->wo && (a->n == 1 || a->wo % 2 == 0));
    tl_matmul p = {.batch = 1, .m = a->co, .n = a->ci, .k = a->wo, .a_m = a->yp.c, .a_k = 1, .b_n = a->xp.c, .b_k = 1};
    p.c_m = a->w_co, p.c_n = a->w_ci, p.team = a->team, p.scratch = a->scratch;
    for (int i = 0; i < a->groups * a->n; ++i) {
        const int group = i / a->n, n = i - group * a->n;
        p.a_f16 = a->y_f16 + n * a->yp.n + group * a->co * a->yp.c;
        p.b_f16 = a->x_f16 + n * a->xp.n + group * a->ci * a->xp.c;
        p.c = a->w + group * a->co * a->w_co, p.accumulate = n > 0 || a->accumulate;
        if (i > 0)
            tl_barrier();
        product(&p);
    }
}
#endif
