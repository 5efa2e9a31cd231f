/* Weight gradient of a depthwise 3 x 3 convolution of halves: nine sums, each a chain through the rows of all images,
 * of two neighbouring outputs a term; internal to c_lib/kernels. An item of work is a channel. Scratch of a core:
 * TL_COPIED halves at most. */
#ifndef TL_DEPTHWISE_GRADIENT_H
#define TL_DEPTHWISE_GRADIENT_H
#include "tl_depthwise_pairs.h"

enum { TL_TAPS = 9 };

/* `count` outputs of each row and what they meet of a copy. */
typedef void tl_meet(float *sums, const tl_pair *x, const tl_half *y, int y_pitch, int count, int rows);

TL_PLANE void tl_halves_gradient(const tl_conv2d *a, tl_meet *meet, int stride)
{
    const int outs = a->groups * a->co;
    tl_copied_halves c = {.left = -a->pad_w, .columns = tl_copied_pitch(a->wo, stride)};
    int most, lo, hi;
    tl_half *own = tl_own_copy(a, a->ho, a->wo, stride, &most);
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(a->stride_h == stride && a->stride_w == stride);
    tl_split_among(tl_team(a->team), outs, 1, &lo, &hi);
    for (int o = lo; o < hi; ++o) {
        float *w = a->w + o * a->w_co;
        for (int tap = 0; tap < TL_TAPS && !a->accumulate; ++tap)
            w[tap] = 0.0f;
        for (int n = 0; n < a->n; ++n) {
            const tl_half *x = a->x_f16 + n * a->xp.n + tl_part_of(o, a->groups, a->co) * a->xp.c;
            const tl_half *y = a->y_f16 + n * a->yp.n + o * a->yp.c;
            for (int row = 0, rows; row < a->ho; row += rows, y += rows * a->yp.h) {
                rows = tl_min(most, a->ho - row);
                if (most < a->ho || (n == 0 && o == lo)) {
                    c.top = row * stride - a->pad_h, c.rows = tl_copied_rows(rows, stride);
                    tl_halves_clear(&c, a->xp.h, a->h, a->wd, own);
                }
                tl_halves_copy(&c, x, a->xp.h);
                meet(w, (const tl_pair *)own, y, a->yp.h, a->wo, rows);
            }
        }
    }
}
#endif
