/* Weight gradient of a depthwise 3 x 3 convolution of halves. Two neighbouring outputs meet a word of a copy of the
 * image by the first tap of a kernel row, the next word by its last one, and by the middle one a half of either. Nine
 * sums, each a chain through all rows, stay in registers. An item of work is a channel. Scratch of a core: TL_COPIED
 * halves at most. */
#include "tl_depthwise_pairs.h"

enum { TAPS = 9 };

/* `count` outputs of each row, whose words in the copy are one more. */
static __attribute__((noinline)) void meet(float *sums, const tl_pair *x, const tl_half *y, int y_pitch, int count,
                                           int rows)
{
#ifdef TL_XF16AUXVEC
    tl_pairs_meet(sums, x, y, y_pitch, count, rows);
#else
    const int words = (count + 1) / 2, pitch = words + 1;
    for (int tap = 0; tap < TAPS; tap += 3) {
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
    const int outs = a->groups * a->co;
    tl_copied_halves c = {.left = -a->pad_w, .columns = tl_copied_pitch(a->wo)};
    int most, lo, hi;
    tl_half *own = tl_own_copy(a, a->ho, a->wo, &most);
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    tl_split_among(tl_team(a->team), outs, 1, &lo, &hi);
    for (int o = lo; o < hi; ++o) {
        float *w = a->w + o * a->w_co;
        for (int tap = 0; tap < TAPS && !a->accumulate; ++tap)
            w[tap] = 0.0f;
        for (int n = 0; n < a->n; ++n) {
            const tl_half *x = a->x_f16 + n * a->xp.n + tl_part_of(o, a->groups, a->co) * a->xp.c;
            const tl_half *y = a->y_f16 + n * a->yp.n + o * a->yp.c;
            for (int row = 0, rows; row < a->ho; row += rows, y += rows * a->yp.h) {
                rows = tl_min(most, a->ho - row);
                if (most < a->ho || (n == 0 && o == lo)) {
                    c.top = row - a->pad_h, c.rows = rows + 2;
                    tl_halves_clear(&c, a->xp.h, a->h, a->wd, own);
                }
                tl_halves_copy(&c, x, a->xp.h);
                meet(w, (const tl_pair *)own, y, a->yp.h, a->wo, rows);
            }
        }
    }
}
