/* Depthwise 3 x 3 convolutions of halves; internal to c_lib/kernels. Of each row of three taps an output in an even
 * column adds up the first two, in an odd column the last two; the taps that are left over of the first two rows are a
 * pair, too, and that of the last row meets a zero. So both read the same two words of a copy with zeros around it. A
 * sum is one chain: pairs of the first row, of the second, of what these have left over, of the last row, and the last
 * tap. Of stride 2 all outputs are as those in even columns. An item of work is an output row. Scratch of a core:
 * TL_COPIED halves at most. */
#ifndef TL_DEPTHWISE_PAIRS_H
#define TL_DEPTHWISE_PAIRS_H
#include "tl_depthwise_pairs_xpulp.h"
#include "tl_pair.h"
#include "tl_plane.h"

enum { TL_COPIED = 1024 };

/* Halves of a copied row: two outputs meet two words, the next two one further, or two of stride 2. */
static inline int tl_copied_pitch(int outputs, int stride)
{
    return (outputs + 1) / 2 * 2 * stride + 2;
}

/* Rows that so many outputs meet. */
static inline int tl_copied_rows(int outputs, int stride)
{
    return (outputs - 1) * stride + 3;
}

/* Rows `top` .. and columns `left` .. of images, zero outside. */
typedef struct {
    int top, left, rows, columns;
    int from, inside, count; /* of an image: the first element that is in it, rows, and elements of each */
    tl_half *to;             /* where that goes */
} tl_copied_halves;

/* Finds out what is inside of images of h rows, and clears the copy at `to`. */
void tl_halves_clear(tl_copied_halves *c, int pitch, int h, int wd, tl_half *to);

/* The zeros stay there, for the same rows of another image. */
static inline __attribute__((always_inline)) void tl_halves_copy(const tl_copied_halves *c, const tl_half *image,
                                                                 int pitch)
{
    const tl_half *from = image + c->from;
    tl_half *to = c->to;
#ifdef TL_XF16AUXVEC
    if (c->count >= 3 && c->inside > 0) {
        tl_copy_half_rows(from, pitch, to, c->columns, c->count, c->inside);
        return;
    }
#endif
    for (int rows = c->inside; rows > 0; --rows, from += pitch, to += c->columns)
        for (int i = 0; i < c->count; ++i)
            to[i] = from[i];
}

/* Outputs, plane by plane: of each channel of an image `size`, whose kernels lie w_inner elements apart. A caller fills
 * in field by field, as compilers call memset for a struct that begins as zeros. */
typedef struct {
    const tl_half *images;
    int image_n, image_c, h, wd, pitch;
    int above, left; /* rows and columns before an image where the first window begins */
    int n, groups, size;
    int w_group, w_inner, first, step; /* the first tap, and from one to the next */
    const float *bias;
    void *to;
    int to_n, to_c, height, width, down; /* down: to the next row */
} tl_halves_planes;

void tl_halves_outputs(const tl_conv2d *a, const tl_halves_planes *p); /* of stride 1 */

static inline __attribute__((always_inline)) tl_halves_planes tl_forward_planes(const tl_conv2d *a)
{
    tl_halves_planes p;
    TL_PROMISE(a->ci == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    p.images = a->x_f16, p.image_n = a->xp.n, p.image_c = a->xp.c, p.h = a->h, p.wd = a->wd, p.pitch = a->xp.h;
    p.above = a->pad_h, p.left = a->pad_w, p.n = a->n, p.groups = a->groups, p.size = a->co;
    p.w_group = a->co * a->w_co, p.w_inner = a->w_co, p.first = 0, p.step = 1, p.bias = a->bias;
    p.to = a->halves ? (void *)a->y_f16 : a->y, p.to_n = a->yp.n, p.to_c = a->yp.c;
    p.height = a->ho, p.width = a->wo, p.down = a->yp.h;
    return p;
}

/* A core's copy for so many rows, of `most` outputs at a time. */
static inline tl_half *tl_own_copy(const tl_conv2d *a, int rows, int width, int stride, int *most)
{
    const int columns = tl_copied_pitch(width, stride);
    *most = tl_min(rows, (TL_COPIED / columns - 3) / stride + 1);
    return (tl_half *)a->scratch + tl_core_id() * columns * tl_copied_rows(*most, stride);
}
#endif
