/* Depthwise kernels of halves: rows with zeros around them, and outputs of stride 1. */
#include "tl_depthwise_outputs.h"

void tl_halves_clear(tl_copied_halves *c, int pitch, int h, int wd, tl_half *to)
{
    const int first = tl_between(-c->left, 0, c->columns), begin = tl_between(-c->top, 0, c->rows);
    tl_pair *words = (tl_pair *)to;
    c->count = tl_between(wd - c->left, first, c->columns) - first;
    c->inside = tl_between(h - c->top, begin, c->rows) - begin;
    c->from = (c->top + begin) * pitch + c->left + first, c->to = to + begin * c->columns + first;
    int i = c->rows * c->columns / 2;
    for (; i >= 4; i -= 4, words += 4)
        words[0] = 0, words[1] = 0, words[2] = 0, words[3] = 0;
    for (; i > 0; --i, ++words) {
        *words = 0;
        TL_ONE_POINTER(words) /* not the SDK's bytewise memset */
    }
}

void tl_halves_outputs(const tl_conv2d *a, const tl_halves_planes *p)
{
    tl_halves_outputs_by(a, p, 1);
}
