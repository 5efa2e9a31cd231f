/* Squares of 2 x 2 outputs of a depthwise 3 x 3 input gradient of stride 2, which meet 2 x 2 elements of dL/dy by nine
 * taps; internal to c_lib/kernels. */
#ifndef TL_DEPTHWISE_SQUARES_H
#define TL_DEPTHWISE_SQUARES_H
#include "tl_plane.h"

#define TL_DOWN static inline __attribute__((always_inline))

typedef struct {
    float w[9];
} tl_nine;

/* Where a square's outputs go, and its left and right upper elements. */
typedef struct {
    float *upper, *lower, a, b;
} tl_down;

/* All of a square; with zeros in place of its right elements; its left half. */
enum { TL_INNER, TL_EDGE, TL_HALF };

TL_DOWN tl_nine tl_nine_of(const float *w)
{
    return (tl_nine){{w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]}};
}

/* With lower elements a1 and b1; `rows` of its outputs, one or two. */
TL_DOWN void tl_square(const tl_down *d, tl_nine t, float a1, float b1, int rows, int kind)
{
    d->upper[0] = __builtin_fmaf(t.w[4], d->a, 0.0f);
    if (kind != TL_HALF)
        d->upper[1] = __builtin_fmaf(t.w[5], d->a, __builtin_fmaf(t.w[3], d->b, 0.0f));
    if (rows == 1)
        return;
    d->lower[0] = __builtin_fmaf(t.w[7], d->a, __builtin_fmaf(t.w[1], a1, 0.0f));
    const float lower = __builtin_fmaf(t.w[2], a1, __builtin_fmaf(t.w[0], b1, 0.0f));
    if (kind != TL_HALF)
        d->lower[1] = __builtin_fmaf(t.w[8], d->a, __builtin_fmaf(t.w[6], d->b, lower));
}

#include "tl_depthwise_squares_xpulp.h"
#ifndef TL_XPULP_TILES
TL_DOWN void tl_rows_down(tl_down *d, const float *in, int pitch, tl_nine t, int rows, int down, int kind)
{
    for (float a1, b1; rows > 0; --rows, d->a = a1, d->b = b1, d->upper += down, d->lower += down) {
        in += pitch, a1 = in[0], b1 = kind == TL_INNER ? in[1] : 0.0f;
        tl_square(d, t, a1, b1, 2, kind);
    }
}
#endif

/* So many squares one below the other, `pitch` elements of dL/dy and `down` outputs apart; in: the first one's left
 * upper element. One more has zeros below it and `last` rows of outputs, or none. A literal: kind. */
TL_DOWN void tl_squares_down(const float *in, int pitch, tl_nine t, float *upper, float *lower, int rows, int down,
                             int last, int kind)
{
    tl_down d = {upper, lower, in[0], kind == TL_INNER ? in[1] : 0.0f};
    tl_rows_down(&d, in, pitch, t, rows, down, kind);
    if (last)
        tl_square(&d, t, 0.0f, 0.0f, last, kind);
}

/* To what is there of a row. */
TL_DOWN void tl_square_add(float bias, float *to, int count)
{
    for (; count > 0; --count, ++to)
        *to = bias + *to;
}
#endif
