/* A plane with its padding. */
#include "tl_plane.h"

static int between(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Neighbours in one order or the other; step, a literal. */
static inline __attribute__((always_inline)) float *copy(const float *from, int count, int step, float *to)
{
    for (; count >= 4; count -= 4, from += 4 * step, to += 4) {
        const float second = from[step], third = from[2 * step], fourth = from[3 * step];
        to[0] = from[0], to[1] = second, to[2] = third, to[3] = fourth;
    }
    for (; count > 0; --count, from += step)
        *to++ = *from;
    return to;
}

void tl_plane_copy(const tl_copied *c, const float *image, int pitch, int h, int wd, float *to)
{
    const int step = c->turned ? -1 : 1;
    /* columns before the image, and up to its other side */
    const int first = between(c->turned ? c->left - (wd - 1) : -c->left, 0, c->columns);
    const int last = between(c->turned ? c->left + 1 : wd - c->left, first, c->columns);
    for (int i = 0, row = c->top; i < c->rows; ++i, row += step) {
        const float *from = image + row * pitch + c->left + step * first;
        float *end = to + c->columns;
        if ((unsigned)row >= (unsigned)h) {
            for (; to < end; ++to)
                *to = 0.0f;
            continue;
        }
        for (float *stop = to + first; to < stop; ++to)
            *to = 0.0f;
        to = c->turned ? copy(from, last - first, -1, to) : copy(from, last - first, 1, to);
        for (; to < end; ++to)
            *to = 0.0f;
    }
}
