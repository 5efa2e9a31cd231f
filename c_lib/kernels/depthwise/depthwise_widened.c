/* Planes of halves, widened as they are copied, and taps. */
#define TL_HALVES
#include "tl_plane.h"

/* Neighbours in one order or the other; step, a literal. */
TL_PLANE void widen(const tl_half *from, int step, float *to, int count)
{
    for (; count >= 4; count -= 4, from += 4 * step, to += 4) {
        const tl_half first = from[0], second = from[step], third = from[2 * step], fourth = from[3 * step];
        to[0] = tl_from_half(first), to[1] = tl_from_half(second);
        to[2] = tl_from_half(third), to[3] = tl_from_half(fourth);
    }
    for (; count > 0; --count, from += step, ++to)
        *to = tl_from_half(*from);
}

void tl_plane_copy(const tl_copied *c, const tl_half *image)
{
    const tl_half *from = image + c->from;
    float *to = c->to;
    for (int rows = c->inside; rows > 0; --rows, from += c->down, to += c->columns) {
        if (c->turned)
            widen(from, -1, to, c->count);
        else
            widen(from, 1, to, c->count);
    }
}

void tl_plane_widen_taps(const tl_conv2d *a, int at, float *own)
{
    const float *floats = a->w + at;
    const tl_half *halves = a->w_f16 + at;
    int left = a->kh * a->kw;
    if (a->floats)
        for (; left > 0; --left)
            *own++ = tl_from_half(tl_to_half(*floats++));
    for (; left > 0; --left)
        *own++ = tl_from_half(*halves++);
}
