/* Convolutions of halves. The terms of a forward convolution and of an input gradient are pairs of neighbouring channels,
 * in one chain (tl_conv_pairs.h); those of a weight gradient are as for floats. */
#define REFERENCE_F16
#include "conv.c"

/* Of two channels, or of one and nothing. */
typedef struct {
    element first, second;
} two;

static float added(float sum, two a, two b)
{
    return tl_pair_add(sum, tl_pair_of(a.first, a.second), tl_pair_of(b.first, b.second));
}

void reference_conv2d_fw_f16(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int o = 0; o < a->groups * a->co; o++)
            for (int p = 0; p < a->ho * a->wo; p++) {
                const int y = p / a->wo, x = p % a->wo, from = o / a->co * a->ci;
                float *to = a->y + n * a->yp.n + o * a->yp.c + y * a->yp.h + x;
                float sum = a->accumulate ? *to : a->bias ? a->bias[o] : 0;
                for (int c = 0; c < a->ci; c += 2)
                    for (int i = 0; i < a->kh; i++)
                        for (int j = 0; j < a->kw; j++) {
                            const int v = y * a->stride_h - a->pad_h + i * a->dil_h, last = c + 1 == a->ci;
                            const int u = x * a->stride_w - a->pad_w + j * a->dil_w;
                            const element *w = a->w_f16 + o * a->w_co + c * a->w_ci + i * a->kw + j;
                            const two weights = {w[0], last ? 0 : w[a->w_ci]};
                            const two in = {at(a->x_f16, a->xp, n, from + c, v, u, a->h, a->wd),
                                            last ? 0 : at(a->x_f16, a->xp, n, from + c + 1, v, u, a->h, a->wd)};
                            sum = added(sum, weights, in);
                        }
                *to = sum;
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
                float sum = a->accumulate ? *to : a->bias ? a->bias[c] : 0;
                for (int o = 0; o < a->co; o += 2)
                    for (int i = a->kh - 1; i >= 0; i--)
                        for (int j = a->kw - 1; j >= 0; j--) {
                            const int v = y + a->pad_h - i * a->dil_h, u = x + a->pad_w - j * a->dil_w;
                            const int last = o + 1 == a->co, row = v / a->stride_h, column = u / a->stride_w;
                            if (v % a->stride_h != 0 || u % a->stride_w != 0)
                                continue;
                            const element *w = a->w_f16 + (from + o) * a->w_co + c % a->ci * a->w_ci + i * a->kw + j;
                            const two weights = {w[0], last ? 0 : w[a->w_co]};
                            const two in = {at(a->y_f16, a->yp, n, from + o, row, column, a->ho, a->wo),
                                            last ? 0 : at(a->y_f16, a->yp, n, from + o + 1, row, column, a->ho, a->wo)};
                            sum = added(sum, weights, in);
                        }
                *to = sum;
            }
}
