/* Weight gradient of a depthwise 3 x 3 convolution of halves. Two neighbouring outputs meet a word of a copy of the
 * image by the first tap of a kernel row, and the next word by its last one. By the middle one outputs do that whose
 * even neighbour is on their right. So each word of the image is read once for a kernel row, and nine sums, each a
 * chain through all rows, stay in registers. An item of work is a channel. Scratch of a core: TL_MET words at most. */
#include "tl_depthwise_pairs.h"

enum { TAPS = 9, TL_MET = 768 };

/* A word more than outputs have, which is zeros; of each word, and shifted by one output. */
static __attribute__((noinline)) void pair_outputs(const tl_half *y, int pitch, int rows, int count, tl_pair *to)
{
    for (; rows > 0; --rows, y += pitch, to += 2) {
        const tl_half *from = y;
        tl_half before = 0;
        for (int twos = count / 2; twos > 0; --twos, from += 2, to += 2) {
            const tl_half even = from[0], odd = from[1];
            to[0] = tl_pair_of(even, odd), to[1] = tl_pair_of(before, even);
            before = odd;
            TL_ONE_POINTER(from)
            TL_ONE_POINTER(to)
        }
        if (count & 1) {
            const tl_half last = *from;
            to[0] = last, to[1] = tl_pair_of(before, last);
            before = 0, to += 2;
        }
        to[0] = 0, to[1] = before;
    }
}

#define STEP(i, last, now)                                                                                             \
    {                                                                                                                  \
        const tl_pair between = y[2 * i + 1], top = x0[i], middle = x1[i], bottom = x2[i];                             \
        now = y[2 * i];                                                                                                \
        s[0] = tl_pair_add(s[0], now, top), s[3] = tl_pair_add(s[3], now, middle);                                     \
        s[6] = tl_pair_add(s[6], now, bottom), s[1] = tl_pair_add(s[1], between, top);                                 \
        s[4] = tl_pair_add(s[4], between, middle), s[7] = tl_pair_add(s[7], between, bottom);                          \
        s[2] = tl_pair_add(s[2], last, top), s[5] = tl_pair_add(s[5], last, middle);                                   \
        s[8] = tl_pair_add(s[8], last, bottom);                                                                        \
    }

/* `count` words, through all rows: the last one of each is zeros. */
static __attribute__((noinline)) void meet(float *sums, const tl_pair *x0, int pitch, const tl_pair *y, int count)
{
    const tl_pair *x1 = x0 + pitch, *x2 = x1 + pitch;
    tl_pair even = 0, odd = 0;
    float s[TAPS];
    for (int tap = 0; tap < TAPS; ++tap)
        s[tap] = sums[tap];
    for (; count >= 2; count -= 2, x0 += 2, x1 += 2, x2 += 2, y += 4) {
        STEP(0, odd, even)
        STEP(1, even, odd)
        TL_ONE_POINTER(y)
    }
    if (count > 0)
        STEP(0, odd, even)
    for (int tap = 0; tap < TAPS; ++tap)
        sums[tap] = s[tap];
}

void tl_conv2d_bw_w_depthwise_3x3_f16(const tl_conv2d *a)
{
    const int outs = a->groups * a->co, pitch = tl_copied_pitch(a->wo) / 2;
    const int most = tl_min(a->ho, (TL_MET / pitch - 2) / 3);
    tl_pair *own = (tl_pair *)a->scratch + tl_core_id() * pitch * (3 * most + 2), *gradients = own + pitch * (most + 2);
    int lo, hi;
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1);
    tl_split_among(tl_team(a->team), outs, 1, &lo, &hi);
    for (int o = lo; o < hi; ++o) {
        float *w = a->w + o * a->w_co;
        for (int tap = 0; tap < TAPS && !a->accumulate; ++tap)
            w[tap] = 0.0f;
        for (int i = 0, rows; i < a->n * a->ho; i += rows) {
            const int n = i / a->ho, row = i - n * a->ho;
            rows = tl_min(most, a->ho - row);
            tl_copy_halves(a->x_f16 + n * a->xp.n + o / a->co * a->xp.c, a->xp.h, a->h, a->wd, row - a->pad_h,
                           -a->pad_w, rows + 2, 2 * pitch, (tl_half *)own, most == a->ho && (n > 0 || o > lo));
            pair_outputs(a->y_f16 + n * a->yp.n + o * a->yp.c + row * a->yp.h, a->yp.h, rows, a->wo, gradients);
            meet(w, own, pitch, gradients, rows * pitch);
        }
    }
}
