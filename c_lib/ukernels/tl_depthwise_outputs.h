/* Outputs of depthwise 3 x 3 kernels of halves, column by column down a copy; internal to c_lib/kernels. */
#ifndef TL_DEPTHWISE_OUTPUTS_H
#define TL_DEPTHWISE_OUTPUTS_H
#include "tl_depthwise_pairs.h"

#ifndef TL_XF16AUXVEC
/* Of two words of each of three rows, one is multiplied as it is, and of the other one half. */
static inline float window(const tl_pair *whole, const tl_pair *other, int upper, int pitch, const tl_pair *w,
                           float sum)
{
    const tl_pair first = other[0] >> upper, second = other[pitch] >> upper;
    sum = tl_pair_add(sum, whole[0], w[0]);
    sum = tl_pair_add(sum, whole[pitch], w[1]);
    sum = tl_pair_add(sum, tl_pair_of((tl_half)first, (tl_half)second), w[3]);
    sum = tl_pair_add(sum, whole[2 * pitch], w[2]);
    return tl_pair_add(sum, other[2 * pitch], w[4]);
}

static inline void put(const tl_halves_columns *c, int at, float sum)
{
    if (c->halves)
        ((tl_half *)c->to)[at] = tl_to_half(sum);
    else
        ((float *)c->to)[at] = sum;
}

static inline void tl_pairs_down(const tl_halves_columns *c, int columns, int both, int stride)
{
    for (int row = 0; row < c->rows; ++row) {
        const tl_pair *in = c->in + row * stride * c->pitch;
        for (int i = 0; i < columns; ++i, ++in) {
            put(c, row * c->down + 2 / stride * i, window(in, in + 1, 0, c->pitch, c->w, c->start));
            if (both)
                put(c, row * c->down + 2 * i + 1, window(in + 1, in, 16, c->pitch, c->w + 5, c->start));
        }
    }
}
#endif

static inline
    __attribute__((always_inline)) void by_twos(const float *f, const tl_half *h, int step, int floats, tl_pair *w)
{
    float numbers[10] = {0.0f};
    tl_half halves[10] = {0};
#define OF(first, second)                                                                                              \
    (floats ? tl_pair_rounded(numbers[first], numbers[second]) : tl_pair_of(halves[first], halves[second]))
    for (int i = 0; i < 9; ++i) {
        if (floats) {
            numbers[i] = *f, f += step;
            TL_ONE_POINTER(f)
        } else {
            halves[i] = *h, h += step;
            TL_ONE_POINTER(h)
        }
    }
    w[0] = OF(0, 1), w[1] = OF(3, 4), w[2] = OF(6, 7), w[3] = OF(2, 5), w[4] = OF(8, 9);
    w[5] = OF(1, 2), w[6] = OF(4, 5), w[7] = OF(7, 8), w[8] = OF(0, 3), w[9] = OF(9, 6);
}

TL_PLANE void tl_halves_outputs_by(const tl_conv2d *a, const tl_halves_planes *p, int stride)
{
    const int outs = p->groups * p->size, size = a->halves ? 2 : 4, width = p->width;
    int most;
    tl_half *own = tl_own_copy(a, p->height, width, stride, &most);
    tl_plane_rows r = tl_plane_share(a->team, p->n * outs, p->height);
    tl_copied_halves copy;
    tl_pair w[10];
    tl_halves_columns c;
    copy.left = -p->left, copy.columns = tl_copied_pitch(width, stride);
    c.w = w, c.halves = a->halves, c.pitch = copy.columns / 2, c.down = p->down;
    while (tl_plane_next(&r, p->height)) {
        const int n = tl_part_of(r.plane, p->n, outs), o = r.plane - n * outs;
        const int group = tl_part_of(o, p->groups, p->size), rows = r.end - r.row;
        const int tap = group * p->w_group + (o - group * p->size) * p->w_inner + p->first;
        const tl_half *image = p->images + n * p->image_n + group * p->image_c;
        char *to = (char *)p->to + (n * p->to_n + o * p->to_c + r.row * p->down) * size;
        c.start = p->bias ? p->bias[o] : 0.0f;
        if (a->floats)
            by_twos(a->w + tap, 0, p->step, 1, w);
        else
            by_twos(0, a->w_f16 + tap, p->step, 0, w);
        for (int done = 0; done < rows; done += c.rows, to += c.rows * p->down * size) {
            c.rows = tl_min(most, rows - done);
            if (!r.again || rows > most) {
                copy.top = (r.row + done) * stride - p->above, copy.rows = tl_copied_rows(c.rows, stride);
                tl_halves_clear(&copy, p->pitch, p->h, p->wd, own);
            }
            tl_halves_copy(&copy, image, p->pitch);
            c.in = (const tl_pair *)own, c.to = to;
            if (stride == 2)
                tl_pairs_down(&c, width, 0, 2);
            if (stride == 1 && width > 1)
                tl_pairs_down(&c, width / 2, 1, 1);
            if (stride == 1 && width % 2) {
                c.in += width / 2, c.to += (width - 1) * size;
                tl_pairs_down(&c, 1, 0, 1);
            }
        }
    }
}
#endif
