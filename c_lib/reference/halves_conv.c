/* Convolutions of halves. The terms of a forward convolution and of an input gradient are pairs of neighbouring
 * channels, but those of a forward convolution of one channel, unless kernel rows have three taps (tl_conv_pairs.h);
 * these and a weight gradient's are as for floats. */
#define REFERENCE_F16
#include "conv.c"

/* One tap of two channels; a last one without a partner meets zero, unless it is the only one. */
static void add_two(sum *s, const element *w, int w_c, const element *in, int in_c, int inside, int last, int alone)
{
    add(s, *w, inside ? *in : 0);
    if (alone)
        return;
    add(s, last ? 0 : w[w_c], inside && !last ? in[in_c] : 0);
}

void reference_conv2d_fw_f16(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int o = 0; o < a->groups * a->co; o++)
            for (int p = 0; p < a->ho * a->wo; p++) {
                const int y = p / a->wo * a->stride_h - a->pad_h, x = p % a->wo * a->stride_w - a->pad_w;
                float *to = a->y + n * a->yp.n + o * a->yp.c + p / a->wo * a->yp.h + p % a->wo;
                const element *in = a->x_f16 + n * a->xp.n + o / a->co * a->ci * a->xp.c;
                sum s = {.total = a->accumulate ? *to : a->bias ? a->bias[o] : 0};
                for (int c = 0; c < a->ci; c += 2)
                    for (int i = 0; i < a->kh; i++)
                        for (int j = 0; j < a->kw; j++) {
                            const int v = y + i * a->dil_h, u = x + j * a->dil_w;
                            add_two(&s, a->w_f16 + o * a->w_co + c * a->w_ci + i * a->kw + j, a->w_ci,
                                    in + c * a->xp.c + v * a->xp.h + u, a->xp.c,
                                    v >= 0 && u >= 0 && v < a->h && u < a->wd, c + 1 == a->ci,
                                    a->ci == 1 && a->kw != 3);
                        }
                *to = end(&s);
            }
}

/* Taps backwards. */
void reference_conv2d_bw_x_f16(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int c = 0; c < a->groups * a->ci; c++)
            for (int p = 0; p < a->h * a->wd; p++) {
                const int y = p / a->wd, x = p % a->wd, from = c / a->ci * a->co;
                float *to = a->x + n * a->xp.n + c * a->xp.c + y * a->xp.h + x;
                sum s = {.total = a->accumulate ? *to : a->bias ? a->bias[c] : 0};
                for (int o = 0; o < a->co; o += 2)
                    for (int i = a->kh - 1; i >= 0; i--)
                        for (int j = a->kw - 1; j >= 0; j--) {
                            const int v = y + a->pad_h - i * a->dil_h, u = x + a->pad_w - j * a->dil_w;
                            const int row = v / a->stride_h, column = u / a->stride_w;
                            if (v % a->stride_h != 0 || u % a->stride_w != 0)
                                continue;
                            add_two(&s, a->w_f16 + (from + o) * a->w_co + c % a->ci * a->w_ci + i * a->kw + j, a->w_co,
                                    a->y_f16 + n * a->yp.n + (from + o) * a->yp.c + row * a->yp.h + column, a->yp.c,
                                    v >= 0 && u >= 0 && row < a->ho && column < a->wo, o + 1 == a->co, 0);
                        }
                *to = end(&s);
            }
}
