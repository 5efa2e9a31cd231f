/* A plane with its padding. */
#include "tl_plane.h"

static int between(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
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
        for (int left = last - first; left > 0; --left, from += step)
            *to++ = *from;
        for (; to < end; ++to)
            *to = 0.0f;
    }
}
