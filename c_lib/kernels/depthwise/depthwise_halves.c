/* Depthwise kernels of halves: rows with zeros around them, columns of outputs down a copy. */
#include "tl_depthwise_pairs.h"

static int between(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

void tl_halves_clear(tl_copied_halves *c, int pitch, int h, int wd, tl_half *to)
{
    const int first = between(-c->left, 0, c->columns), begin = between(-c->top, 0, c->rows);
    tl_pair *words = (tl_pair *)to;
    c->count = between(wd - c->left, first, c->columns) - first;
    c->inside = between(h - c->top, begin, c->rows) - begin;
    c->from = (c->top + begin) * pitch + c->left + first, c->to = to + begin * c->columns + first;
    int i = c->rows * c->columns / 2;
    for (; i >= 4; i -= 4, words += 4)
        words[0] = 0, words[1] = 0, words[2] = 0, words[3] = 0;
    for (; i > 0; --i, ++words) {
        *words = 0;
        TL_ONE_POINTER(words) /* not the SDK's bytewise memset */
    }
}

#ifndef TL_XF16AUXVEC
/* Of two words of each of three rows, one is multiplied as it is, and of the other one half. */
static float window(const tl_pair *whole, const tl_pair *other, int upper, int pitch, const tl_pair *w, float sum)
{
    const tl_pair first = other[0] >> upper, second = other[pitch] >> upper;
    sum = tl_pair_add(sum, whole[0], w[0]);
    sum = tl_pair_add(sum, whole[pitch], w[1]);
    sum = tl_pair_add(sum, tl_pair_of((tl_half)first, (tl_half)second), w[3]);
    sum = tl_pair_add(sum, whole[2 * pitch], w[2]);
    return tl_pair_add(sum, other[2 * pitch], w[4]);
}

static void put(const tl_halves_columns *c, int at, float sum)
{
    if (c->halves)
        ((tl_half *)c->to)[at] = tl_to_half(sum);
    else
        ((float *)c->to)[at] = sum;
}

static void tl_pairs_down(const tl_halves_columns *c, int columns, int both)
{
    for (int row = 0; row < c->rows; ++row) {
        const tl_pair *in = c->in + row * c->pitch;
        for (int i = 0; i < columns; ++i, ++in) {
            put(c, row * c->down + 2 * i, window(in, in + 1, 0, c->pitch, c->w, c->start));
            if (both)
                put(c, row * c->down + 2 * i + 1, window(in + 1, in, 16, c->pitch, c->w + 5, c->start));
        }
    }
}
#endif

void tl_halves_plane(tl_halves_planes *p, const tl_plane_rows *r)
{
    const int rows = r->end - r->row, size = p->halves ? 2 : 4;
    tl_halves_columns c = {.w = p->w, .start = p->start, .halves = p->halves, .down = p->down};
    char *first = p->to;
    c.pitch = p->copy.columns / 2;
    for (int done = 0; done < rows; done += c.rows, first += c.rows * p->down * size) {
        c.rows = tl_min(p->most, rows - done);
        if (!r->again || rows > p->most) {
            p->copy.top = r->row + done - p->pad_h, p->copy.rows = c.rows + 2;
            tl_halves_clear(&p->copy, p->pitch, p->h, p->wd, p->own);
        }
        tl_halves_copy(&p->copy, p->image, p->pitch);
        c.in = (const tl_pair *)p->own, c.to = first;
        if (p->width > 1)
            tl_pairs_down(&c, p->width / 2, 1);
        if (p->width % 2) {
            c.in += p->width / 2, c.to += (p->width - 1) * size;
            tl_pairs_down(&c, 1, 0);
        }
    }
}

static inline __attribute__((always_inline)) void by_twos(const tl_conv2d *a, int at, int step, int floats, tl_pair *w)
{
    tl_half taps[9];
    for (int i = 0; i < 9; ++i, at += step)
        taps[i] = floats ? tl_to_half(a->w[at]) : a->w_f16[at];
    for (int i = 0; i < 3; ++i) {
        w[i] = tl_pair_of(taps[3 * i], taps[3 * i + 1]);
        w[i + 5] = tl_pair_of(taps[3 * i + 1], taps[3 * i + 2]);
    }
    w[3] = tl_pair_of(taps[2], taps[5]), w[4] = tl_pair_of(taps[8], 0);
    w[8] = tl_pair_of(taps[0], taps[3]), w[9] = tl_pair_of(0, taps[6]);
}

void tl_weights_by_twos(const tl_conv2d *a, int at, int step, tl_pair *w)
{
    if (a->floats)
        by_twos(a, at, step, 1, w);
    else
        by_twos(a, at, step, 0, w);
}
