/* Rows of an input gradient without padding along rows, for the tiles of tl_inside.h; internal to c_lib/kernels. */
#ifndef TL_INSIDE_BACK_H
#define TL_INSIDE_BACK_H
#include "tl_inside.h" /* first: it sets how the whole file is compiled */

/* Where a place's tiles read and write. */
typedef struct {
    const float *in, *w; /* row 0 of dL/dy: the last element that the tile meets; weights of the tile's channels */
    const float *bias;   /* or NULL */
    float *out;          /* row 0: the leftmost pixel */
    int wide;            /* pixels */
} tl_inside_place;

/* The plan of the last tile, which others have as well. */
typedef struct {
    int of, steps[TL_INSIDE_PLAN];
} tl_inside_planned;

TL_INSIDE tl_inside tl_inside_back(const tl_conv2d *a, tl_inside_planned *p)
{
    p->of = -1;
    return (tl_inside){.in_row = -4 * a->yp.h, .w_row = 36, .w_rest = 4 - 108, .out_c = 4 * a->xp.c, .plan = p->steps};
}

TL_INSIDE tl_inside_place tl_inside_place_of(const tl_conv2d *a, const tl_inside_items *i, int chans, int x, int first,
                                             int wide)
{
    const int channel = i->group * a->ci + chans * i->tile;
    return (tl_inside_place){.in = a->y + i->n * a->yp.n + i->group * a->co * a->yp.c + first,
                             .w = a->w + i->group * a->co * a->w_co + chans * i->tile * 9,
                             .bias = a->bias ? a->bias + channel : NULL,
                             .out = a->x + i->n * a->xp.n + channel * a->xp.c + x,
                             .wide = wide};
}

/* Cores that share a float unit have places half of all apart: one of them begins with other rows, so that they are not
 * always in the loop at once. */
TL_INSIDE int tl_inside_turned(const tl_conv2d *a, const tl_inside_items *i, int row)
{
    const int turned = i->line < i->half ? row : row + a->h / 2;
    return turned < a->h ? turned : turned - a->h;
}

/* The tile of a row: kernel rows outside of dL/dy are left out. */
TL_INSIDE void tl_inside_row(const tl_conv2d *a, const tl_inside_place *p, int y, tl_inside_planned *planned,
                             tl_inside *t)
{
    const int row = y + a->pad_h, top = tl_max(0, row - a->ho + 1), rows = tl_min(3, row + 1) - top;
    if (planned->of != 4 * top + rows)
        tl_inside_plan(planned->steps, a->co, top, rows), planned->of = 4 * top + rows;
    t->in_next = 4 * (a->yp.c + rows * a->yp.h), t->w_next = 4 * (a->w_co - 3 * rows);
    t->in = p->in + (row - top) * a->yp.h, t->w = p->w + 3 * top, t->out = p->out + y * a->xp.h;
    tl_inside_onto(t, p->bias, a->accumulate, p->wide);
}
#endif
