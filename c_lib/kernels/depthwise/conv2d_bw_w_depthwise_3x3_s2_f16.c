/* Weight gradient of a depthwise 3 x 3 convolution of halves, of stride 2. Two neighbouring outputs meet three words of
 * a copy of the image: by the first tap of a kernel row the lower halves of the first two, by the middle one their
 * upper halves, by the last one the lower halves of the last two. */
#include "tl_depthwise_gradient.h"

/* The words of two outputs of a row by its three taps. */
#define MEET(first, middle, last, x)                                                                                   \
    {                                                                                                                  \
        const tl_pair a = (x)[0], b = (x)[1], c = (x)[2];                                                              \
        first = tl_pair_add(first, outputs, tl_pair_of((tl_half)a, (tl_half)b));                                       \
        middle = tl_pair_add(middle, outputs, tl_pair_of((tl_half)(a >> 16), (tl_half)(b >> 16)));                     \
        last = tl_pair_add(last, outputs, tl_pair_of((tl_half)b, (tl_half)c));                                         \
    }

static __attribute__((noinline)) void meet(float *sums, const tl_pair *x, const tl_half *y, int y_pitch, int count,
                                           int rows)
{
    const int words = (count + 1) / 2 * 2, pitch = words + 1;
#ifdef TL_XF16AUXVEC
    tl_pairs_meet_s2(sums, x, pitch, y, y_pitch, count, rows);
#else
    float s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], s4 = sums[4], s5 = sums[5], s6 = sums[6],
          s7 = sums[7], s8 = sums[8];
    for (; rows > 0; --rows, x += pitch + 1, y += y_pitch - count)
        for (int left = count; left > 0; left -= 2, x += 2) {
            const tl_half first = *y++, second = left > 1 ? *y++ : 0;
            const tl_pair outputs = tl_pair_of(first, second);
            MEET(s0, s1, s2, x)
            MEET(s3, s4, s5, x + pitch)
            MEET(s6, s7, s8, x + 2 * pitch)
        }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3, sums[4] = s4, sums[5] = s5, sums[6] = s6, sums[7] = s7;
    sums[8] = s8;
#endif
}

void tl_conv2d_bw_w_depthwise_3x3_s2_f16(const tl_conv2d *a)
{
    tl_halves_gradient(a, meet, 2);
}
