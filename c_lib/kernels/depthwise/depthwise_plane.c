/* A plane with its padding. */
#include "tl_plane.h"

static int between(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Neighbours in one order or the other; step, a literal. */
static inline __attribute__((always_inline)) void copy(const float *from, int count, int step, float *to)
{
    for (; count >= 4; count -= 4, from += 4 * step, to += 4) {
        const float second = from[step], third = from[2 * step], fourth = from[3 * step];
        to[0] = from[0], to[1] = second, to[2] = third, to[3] = fourth;
    }
    if (count >= 2) {
        const float second = from[step];
        to[0] = from[0], to[1] = second;
        from += 2 * step, to += 2, count -= 2;
    }
    if (count > 0)
        *to = *from;
}

static __attribute__((noinline)) void clear(float *to, int count)
{
    for (; count >= 4; count -= 4, to += 4)
        to[0] = 0.0f, to[1] = 0.0f, to[2] = 0.0f, to[3] = 0.0f;
    for (; count > 0; --count, ++to) {
        *to = 0.0f;
        TL_ONE_POINTER(to) /* not the SDK's bytewise memset */
    }
}

void tl_plane_copy(const tl_copied *c, const float *image, int pitch, int h, int wd, float *to, int padded)
{
    const int step = c->turned ? -1 : 1;
    /* columns and rows before the image, and up to its other side */
    const int first = between(c->turned ? c->left - (wd - 1) : -c->left, 0, c->columns);
    const int count = between(c->turned ? c->left + 1 : wd - c->left, first, c->columns) - first;
    const int begin = between(tl_copied_begin(c, h), 0, c->rows);
    const int end = between(tl_copied_end(c, h), begin, c->rows);
    const float *from = image + (c->top + step * begin) * pitch + c->left + step * first;
    if (!padded)
        clear(to, c->rows * c->columns);
    to += begin * c->columns + first;
    for (int left = end - begin; left > 0; --left, from += step * pitch, to += c->columns) {
        if (c->turned)
            copy(from, count, -1, to);
        else
            copy(from, count, 1, to);
    }
}
