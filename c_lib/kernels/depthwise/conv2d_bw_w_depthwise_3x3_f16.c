/* Weight gradient of a depthwise 3 x 3 convolution of halves. Two neighbouring outputs meet a word of a copy of the
 * image by the first tap of a kernel row, the next word by its last one, and by the middle one a half of either. */
#include "tl_depthwise_gradient.h"

/* `count` outputs of each row, whose words in the copy are one more. */
static __attribute__((noinline)) void meet(float *sums, const tl_pair *x, const tl_half *y, int y_pitch, int count,
                                           int rows)
{
#ifdef TL_XF16AUXVEC
    tl_pairs_meet(sums, x, y, y_pitch, count, rows);
#else
    const int words = (count + 1) / 2, pitch = words + 1;
    for (int tap = 0; tap < TL_TAPS; tap += 3) {
        const tl_pair *top = x + tap / 3 * pitch;
        float first = sums[tap], middle = sums[tap + 1], last = sums[tap + 2];
        for (int row = 0; row < rows; ++row)
            for (int i = 0; i < words; ++i) {
                const tl_half *dy = y + row * y_pitch + 2 * i;
                const tl_pair outputs = tl_pair_of(dy[0], 2 * i + 1 < count ? dy[1] : 0);
                const tl_pair a = top[row * pitch + i], b = top[row * pitch + i + 1];
                first = tl_pair_add(first, outputs, a);
                middle = tl_pair_add(middle, outputs, tl_pair_of((tl_half)(a >> 16), (tl_half)b));
                last = tl_pair_add(last, outputs, b);
            }
        sums[tap] = first, sums[tap + 1] = middle, sums[tap + 2] = last;
    }
#endif
}

void tl_conv2d_bw_w_depthwise_3x3_f16(const tl_conv2d *a)
{
    tl_halves_gradient(a, meet, 1);
}
