/* What a row of the transformed 4 x 4 adds to the gradient of a 3 x 3 weight; internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_BW_W_ROW_H
#define TL_WINOGRAD_BW_W_ROW_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */

/* w += factor * share, or factor * share where the weight begins. */
static inline __attribute__((always_inline)) void tl_winograd_add(float *w, float factor, int begins,
                                                                  const float *share)
{
    for (int i = 0; i < 3; ++i)
        w[i] = __builtin_fmaf(factor, share[i], begins ? 0.0f : w[i]);
}

/* By rows of the kernel: sums of the first row of products go to the first, of the last to the last, of others to
 * all. Calls know the row and whether weights begin with it, so that nothing is asked for each kernel; `middle` alone
 * is what the second row and the third one differ by. */
static inline __attribute__((always_inline)) void tl_winograd_bw_w_row(float *w, float m0, float m1, float m2, float m3,
                                                                       int row, float middle, int begins)
{
    const float sum = m1 + m2, difference = m1 - m2;
    const float share[3] = {__builtin_fmaf(0.5f, sum, m0), 0.5f * difference, __builtin_fmaf(0.5f, sum, -m3)};
    if (row == 0) {
        tl_winograd_add(w, 1.0f, begins, share);
    } else if (row == 3) {
        tl_winograd_add(w + 6, -1.0f, 0, share);
    } else {
        tl_winograd_add(w, 0.5f, 0, share);
        tl_winograd_add(w + 3, middle, begins, share);
        tl_winograd_add(w + 6, 0.5f, begins, share);
    }
}

/* Calls add(row, middle, begins) with what a call has to know. */
#define TL_WINOGRAD_BW_W_ROW(row, begins, add)                                                                         \
    do {                                                                                                               \
        if ((row) == 3)                                                                                                \
            add(3, 0.0f, 0);                                                                                           \
        else if ((row) == 0 && (begins))                                                                               \
            add(0, 0.0f, 1);                                                                                           \
        else if ((row) == 0)                                                                                           \
            add(0, 0.0f, 0);                                                                                           \
        else if (begins)                                                                                               \
            add(1, (row) == 1 ? 0.5f : -0.5f, 1);                                                                      \
        else                                                                                                           \
            add(1, (row) == 1 ? 0.5f : -0.5f, 0);                                                                      \
    } while (0)
#endif
