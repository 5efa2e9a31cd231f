/* Convolution and its gradients, one element at a time, on one core: what every kernel of them gives, bit by bit. */
#include "tl_conv.h"
#include "sum.h"

static element at(const element *image, tl_pitch p, int n, int c, int y, int x, int h, int w)
{
    return y < 0 || x < 0 || y >= h || x >= w ? 0 : image[n * p.n + c * p.c + y * p.h + x];
}
#ifndef REFERENCE_F16
void REFERENCE(conv2d_fw)(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int o = 0; o < a->groups * a->co; o++)
            for (int y = 0; y < a->ho; y++)
                for (int x = 0; x < a->wo; x++) {
                    float *to = a->y + n * a->yp.n + o * a->yp.c + y * a->yp.h + x;
                    sum s = {.total = a->accumulate ? *to : a->bias ? a->bias[o] : 0};
                    for (int c = 0; c < a->ci; c++)
                        for (int i = 0; i < a->kh; i++)
                            for (int j = 0; j < a->kw; j++)
                                add(&s, a->READ(w)[o * a->w_co + c * a->w_ci + i * a->kw + j],
                                    at(a->READ(x), a->xp, n, o / a->co * a->ci + c,
                                       y * a->stride_h - a->pad_h + i * a->dil_h,
                                       x * a->stride_w - a->pad_w + j * a->dil_w, a->h, a->wd));
                    *to = end(&s);
                }
}
void REFERENCE(conv2d_bw_x)(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int c = 0; c < a->groups * a->ci; c++)
            for (int y = 0; y < a->h; y++)
                for (int x = 0; x < a->wd; x++) {
                    float *to = a->x + n * a->xp.n + c * a->xp.c + y * a->xp.h + x;
                    sum s = {.total = a->accumulate ? *to : a->bias ? a->bias[c] : 0};
                    for (int o = 0; o < a->co; o++)
                        for (int i = 0; i < a->kh; i++)
                            for (int j = 0; j < a->kw; j++) {
                                int v = y + a->pad_h - i * a->dil_h, u = x + a->pad_w - j * a->dil_w,
                                    from = c / a->ci * a->co + o;
                                if (v % a->stride_h == 0 && u % a->stride_w == 0)
                                    add(&s, a->READ(w)[from * a->w_co + c % a->ci * a->w_ci + i * a->kw + j],
                                        at(a->READ(y), a->yp, n, from, v / a->stride_h, u / a->stride_w, a->ho, a->wo));
                            }
                    *to = end(&s);
                }
}
#endif
/* Whether a weight gradient's block of terms begins with this output of an image: whole rows, as many as have 64 of
 * them at most; 64 of a longer row, or, of kernels with one tap, of the image. */
static int begins_block(const tl_conv2d *a, int y, int x)
{
    if (a->kh * a->kw == 1)
        return (y * a->wo + x) % 64 == 0;
    return a->wo > 64 ? x % 64 == 0 : x == 0 && y % (64 / a->wo) == 0;
}
void REFERENCE(conv2d_bw_w)(const tl_conv2d *a)
{
    for (int o = 0; o < a->groups * a->co; o++)
        for (int c = 0; c < a->ci; c++)
            for (int i = 0; i < a->kh; i++)
                for (int j = 0; j < a->kw; j++) {
                    float *to = a->w + o * a->w_co + c * a->w_ci + i * a->kw + j;
                    sum s = {.total = a->accumulate ? *to : 0};
                    for (int n = 0; n < a->n; n++)
                        for (int y = 0; y < a->ho; y++)
                            for (int x = 0; x < a->wo; x++) {
                                if (begins_block(a, y, x))
                                    next_block(&s);
                                add(&s, a->READ(y)[n * a->yp.n + o * a->yp.c + y * a->yp.h + x],
                                    at(a->READ(x), a->xp, n, o / a->co * a->ci + c,
                                       y * a->stride_h - a->pad_h + i * a->dil_h,
                                       x * a->stride_w - a->pad_w + j * a->dil_w, a->h, a->wd));
                            }
                    *to = end(&s);
                }
}
