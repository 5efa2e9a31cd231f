/* A row of the transformed 4 x 4 inputs, B' d B: internal to c_lib/kernels. Element e of tile j goes to v[4 * e + j *
 * apart]; `apart` is a literal. */
#ifndef TL_WINOGRAD_INPUTS_H
#define TL_WINOGRAD_INPUTS_H
#include "tl_winograd_tiles.h"

#define TL_TRANSFORM static inline __attribute__((always_inline))
#define TL_PAIR(j) __builtin_fmaf(k, q[j], p[j])

/* Four tiles side by side; the columns between the first and the last of ten are inside. */
TL_TRANSFORM void tl_transform_four(const float *p, const float *q, float k, int left, int right, float *v, int apart)
{
    float *v1 = v + apart, *v2 = v1 + apart, *v3 = v2 + apart;
    const float a = left ? TL_PAIR(0) : 0.0f, j = right ? TL_PAIR(9) : 0.0f;
    const float b = TL_PAIR(1), c = TL_PAIR(2), d = TL_PAIR(3), e = TL_PAIR(4);
    v[0] = a - c, v[4] = b + c, v[8] = c - b, v[12] = b - d;
    v1[0] = c - e, v1[4] = d + e, v1[8] = e - d;
    const float f = TL_PAIR(5), g = TL_PAIR(6);
    v1[12] = d - f;
    v2[0] = e - g, v2[4] = f + g, v2[8] = g - f;
    const float h = TL_PAIR(7), i = TL_PAIR(8);
    v2[12] = f - h;
    v3[0] = g - i, v3[4] = h + i, v3[8] = i - h, v3[12] = h - j;
}

/* Two; the columns between the first and the last of six are inside. */
TL_TRANSFORM void tl_transform_two(const float *p, const float *q, float k, int left, int right, float *v)
{
    const float a = left ? TL_PAIR(0) : 0.0f, f = right ? TL_PAIR(5) : 0.0f;
    const float b = TL_PAIR(1), c = TL_PAIR(2), d = TL_PAIR(3), e = TL_PAIR(4);
    v[0] = a - c, v[4] = b + c, v[8] = c - b, v[12] = b - d;
    v[1] = c - e, v[5] = d + e, v[9] = e - d, v[13] = d - f;
}

/* One tile, the columns of which are inside from `from` to `to`. */
TL_TRANSFORM void tl_transform_one(const float *p, const float *q, float k, int from, int to, float *v)
{
    const float a = from <= 0 && to > 0 ? TL_PAIR(0) : 0.0f, b = from <= 1 && to > 1 ? TL_PAIR(1) : 0.0f;
    const float c = from <= 2 && to > 2 ? TL_PAIR(2) : 0.0f, d = from <= 3 && to > 3 ? TL_PAIR(3) : 0.0f;
    v[0] = a - c, v[4] = b + c, v[8] = c - b, v[12] = b - d;
}
#endif
