/* Input gradient of a depthwise 3 x 3 convolution of stride 2 with a padding of one: squares of 2 x 2 outputs begin
 * with the plane and meet dL/dy where it lies. Only behind its last column and below its last row zeros are met. An
 * item of work is a row of squares. What there is of one kind goes through all planes of a core before the next one. */
#include "tl_depthwise_squares.h"

/* Rows of squares of a plane, whose first elements of dL/dy and of outputs are these. */
typedef struct {
    const float *in, *w;
    float *to, bias;
    int whole, last; /* of them with a row of dL/dy below; rows of outputs of one that has none, or 0 */
} part;

static int next_part(const tl_conv2d *a, tl_plane_rows *r, part *p)
{
    const int ins = a->groups * a->ci;
    if (!tl_plane_next(r, a->ho))
        return 0;
    const int n = tl_part_of(r->plane, a->n, ins), i = r->plane - n * ins, group = tl_part_of(i, a->groups, a->ci);
    p->in = a->y + n * a->yp.n + group * a->yp.c + r->row * a->yp.h;
    p->w = a->w + group * a->w_co + (i - group * a->ci) * a->w_ci;
    p->to = a->x + n * a->xp.n + i * a->xp.c + 2 * r->row * a->xp.h;
    p->bias = a->bias ? a->bias[i] : 0.0f;
    p->last = r->end < a->ho ? 0 : a->h % 2 ? 1 : 2;
    p->whole = r->end - r->row - (p->last > 0);
    return 1;
}

/* All columns but the last one. */
static __attribute__((noinline)) void inner(const tl_conv2d *a, tl_plane_rows r)
{
    for (part p; next_part(a, &r, &p);) {
        const tl_nine t = tl_nine_of(p.w);
        for (int left = a->wo - 1; left > 0; --left, ++p.in, p.to += 2)
            tl_squares_down(p.in, a->yp.h, t, p.to, p.to + a->xp.h, p.whole, 2 * a->xp.h, p.last, TL_INNER);
    }
}

/* The last one; of an odd width it is halves. */
static __attribute__((noinline)) void last_column(const tl_conv2d *a, tl_plane_rows r)
{
    const int at = a->wo - 1;
    for (part p; next_part(a, &r, &p);) {
        const tl_nine t = tl_nine_of(p.w);
        const float *in = p.in + at;
        float *upper = p.to + 2 * at, *lower = upper + a->xp.h;
        if (a->wd % 2)
            tl_squares_down(in, a->yp.h, t, upper, lower, p.whole, 2 * a->xp.h, p.last, TL_HALF);
        else
            tl_squares_down(in, a->yp.h, t, upper, lower, p.whole, 2 * a->xp.h, p.last, TL_EDGE);
    }
}

void tl_conv2d_bw_x_depthwise_3x3_s2_pad1_f32(const tl_conv2d *a)
{
    const tl_plane_rows r = tl_plane_share(a->team, a->n * a->groups * a->ci, a->ho);
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 2 && a->stride_w == 2 && a->pad_h == 1 && a->pad_w == 1);
    TL_PROMISE(a->ho == (a->h + 1) / 2 && a->wo == (a->wd + 1) / 2);
    inner(a, r), last_column(a, r);
    tl_plane_rows again = r;
    for (part p; a->bias && next_part(a, &again, &p);) {
        for (int row = 0; row < 2 * p.whole + p.last; ++row)
            tl_square_add(p.bias, p.to + row * a->xp.h, a->wd);
    }
}
