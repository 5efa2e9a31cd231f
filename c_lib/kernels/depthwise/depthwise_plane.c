/* A plane with its padding. */
#include "tl_copy_rows.h"
#include "tl_plane.h"

static __attribute__((noinline)) void clear(float *to, int count)
{
    for (; count >= 4; count -= 4, to += 4)
        to[0] = 0.0f, to[1] = 0.0f, to[2] = 0.0f, to[3] = 0.0f;
    for (; count > 0; --count, ++to) {
        *to = 0.0f;
        TL_ONE_POINTER(to) /* not the SDK's bytewise memset */
    }
}

void tl_plane_clear(tl_copied *c, int pitch, int h, int wd, float *to)
{
    const int step = c->turned ? -1 : 1;
    /* columns and rows before the image, and up to its other side */
    const int first = tl_between(c->turned ? c->left - (wd - 1) : -c->left, 0, c->columns);
    const int begin = tl_between(tl_copied_begin(c, h), 0, c->rows);
    c->count = tl_between(c->turned ? c->left + 1 : wd - c->left, first, c->columns) - first;
    c->inside = tl_between(tl_copied_end(c, h), begin, c->rows) - begin;
    c->from = (c->top + step * begin) * pitch + c->left + step * first;
    c->down = step * pitch, c->to = to + begin * c->columns + first;
    clear(to, c->rows * c->columns);
}

void tl_plane_copy(const tl_copied *c, const float *image)
{
    tl_copy_rows(image + c->from, c->turned ? -1 : 1, c->down, c->to, c->columns, c->inside, c->count);
}
