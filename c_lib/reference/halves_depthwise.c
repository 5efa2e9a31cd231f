/* Depthwise 3 x 3 convolutions of halves, whose terms are pairs of neighbours in a row (tl_depthwise_pairs.h). */
#include "tl_conv.h"
#include "tl_pair.h"

static tl_half at(const tl_half *image, int pitch, int y, int x, int h, int w)
{
    return y < 0 || x < 0 || y >= h || x >= w ? 0 : image[y * pitch + x];
}

/* Window (y, x) of an image; of tap i the weight w[i * step]. In an even column the pairs of a row are its first two
 * taps, in an odd one its last two. */
static float window(float sum, const tl_half *w, int step, const tl_half *in, int pitch, int y, int x, int h, int wd,
                    int odd)
{
    tl_pair pixels[3], weights[3];
    tl_half pixel[3], weight[3]; /* what rows have left over */
    for (int i = 0; i < 3; i++, w += 3 * step) {
        const int first = odd ? 1 : 0, over = odd ? 0 : 2;
        pixels[i] = tl_pair_of(at(in, pitch, y + i, x + first, h, wd), at(in, pitch, y + i, x + first + 1, h, wd));
        weights[i] = tl_pair_of(w[first * step], w[(first + 1) * step]);
        pixel[i] = at(in, pitch, y + i, x + over, h, wd), weight[i] = w[over * step];
    }
    sum = tl_pair_add(tl_pair_add(sum, pixels[0], weights[0]), pixels[1], weights[1]);
    sum = tl_pair_add(sum, tl_pair_of(pixel[0], pixel[1]), tl_pair_of(weight[0], weight[1]));
    return tl_pair_add(tl_pair_add(sum, pixels[2], weights[2]), pixel[2], weight[2]);
}

void reference_conv2d_fw_twos(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int o = 0; o < a->groups * a->co; o++)
            for (int p = 0; p < a->ho * a->wo; p++) {
                const int y = p / a->wo, x = p % a->wo;
                a->y[n * a->yp.n + o * a->yp.c + y * a->yp.h + x] =
                    window(a->bias ? a->bias[o] : 0, a->w_f16 + o * a->w_co, 1,
                           a->x_f16 + n * a->xp.n + o / a->co * a->xp.c, a->xp.h, y * a->stride_h - a->pad_h,
                           x * a->stride_w - a->pad_w, a->h, a->wd, a->stride_w == 1 && x % 2);
            }
}

/* Of stride 2: rows and columns of dL/dy that meet (y, x) by the taps 0 and 2, or by the tap 1. */
static float meets(float sum, const tl_half *w, const tl_half *in, int pitch, int y, int x, int h, int wd)
{
    const int i = y & 1 ? 1 : 2, j = x & 1 ? 1 : 2, v = (y - i) >> 1, u = (x - j) >> 1;
#define AT(down, across) at(in, pitch, v + (down), u + (across), h, wd)
    if (i == 1 && j == 1)
        return tl_pair_add(sum, AT(0, 0), w[4]);
    if (i == 1)
        return tl_pair_add(sum, tl_pair_of(AT(0, 0), AT(0, 1)), tl_pair_of(w[5], w[3]));
    if (j == 1)
        return tl_pair_add(sum, tl_pair_of(AT(0, 0), AT(1, 0)), tl_pair_of(w[7], w[1]));
    sum = tl_pair_add(sum, tl_pair_of(AT(0, 0), AT(0, 1)), tl_pair_of(w[8], w[6]));
    return tl_pair_add(sum, tl_pair_of(AT(1, 0), AT(1, 1)), tl_pair_of(w[2], w[0]));
}

static void input_gradient_s2(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++)
        for (int c = 0; c < a->groups * a->ci; c++)
            for (int p = 0; p < a->h * a->wd; p++) {
                const int y = p / a->wd, x = p % a->wd, group = c / a->ci;
                const tl_half *in = a->y_f16 + n * a->yp.n + group * a->yp.c;
                a->x[n * a->xp.n + c * a->xp.c + y * a->xp.h + x] =
                    meets(a->bias ? a->bias[c] : 0, a->w_f16 + group * a->w_co + c % a->ci * a->w_ci, in, a->yp.h,
                          y + a->pad_h, x + a->pad_w, a->ho, a->wo);
            }
}

/* Taps backwards. */
void reference_conv2d_bw_x_twos(const tl_conv2d *a)
{
    if (a->stride_h == 2) {
        input_gradient_s2(a);
        return;
    }
    for (int n = 0; n < a->n; n++)
        for (int c = 0; c < a->groups * a->ci; c++)
            for (int p = 0; p < a->h * a->wd; p++) {
                const int y = p / a->wd, x = p % a->wd, group = c / a->ci;
                a->x[n * a->xp.n + c * a->xp.c + y * a->xp.h + x] =
                    window(a->bias ? a->bias[c] : 0, a->w_f16 + group * a->w_co + c % a->ci * a->w_ci + 8, -1,
                           a->y_f16 + n * a->yp.n + group * a->yp.c, a->yp.h, y + a->pad_h - 2, x + a->pad_w - 2, a->ho,
                           a->wo, x % 2);
            }
}

void reference_conv2d_bw_w_twos(const tl_conv2d *a)
{
    for (int o = 0; o < a->groups * a->co; o++)
        for (int tap = 0; tap < 9; tap++) {
            const int i = tap / 3, j = tap % 3;
            float *to = a->w + o * a->w_co + tap, sum = a->accumulate ? *to : 0;
            for (int n = 0; n < a->n; n++)
                for (int y = 0; y < a->ho; y++)
                    for (int x = 0; x < a->wo; x += 2) {
                        const tl_half *in = a->x_f16 + n * a->xp.n + o / a->co * a->xp.c;
                        const tl_half *dy = a->y_f16 + n * a->yp.n + o * a->yp.c + y * a->yp.h;
                        const int v = y * a->stride_h - a->pad_h + i, u = x * a->stride_w - a->pad_w + j;
                        const tl_half second = x + 1 < a->wo ? dy[x + 1] : 0;
                        sum = tl_pair_add(sum, tl_pair_of(dy[x], second),
                                          tl_pair_of(at(in, a->xp.h, v, u, a->h, a->wd),
                                                     at(in, a->xp.h, v, u + a->stride_w, a->h, a->wd)));
                    }
            *to = sum;
        }
}
