/* Forward convolution of stride 2 along a row, whose rows are pairs of outputs. All cores copy the planes with zeros
 * around them, and the weights, then share out tiles of 4 output channels x 4 neighbouring pixels of a plane, channels
 * fastest. Scratch: planes [n][groups][ci][rows][pitch], weights [groups][tiles][terms]. */
#include "tl_plane_panel.h" /* first: it sets how the whole file is compiled */
#include "tl_around.h"
#include "tl_promise.h"

enum { MOST_BLOCKS = 20 };

/* What is in scratch. */
typedef struct {
    int pitch, plane; /* of a copy: from row to row, from channel to channel */
    int rows, tiles;
    float *planes;
    tl_twos_term *weights;
} copied;

static copied copied_of(const tl_conv2d *a)
{
    copied c = {.planes = a->scratch, .tiles = (a->co + 3) >> 2};
    c.pitch = (a->wo - 1) * a->stride_w + (a->kw - 1) * a->dil_w + 1;
    c.rows = (a->ho - 1) * a->stride_h + (a->kh - 1) * a->dil_h + 1;
    c.plane = c.rows * c.pitch;
    c.weights = (tl_twos_term *)(c.planes + a->n * a->groups * a->ci * c.plane);
    return c;
}

/* From the first term's input to that of term k. */
static int place_of(const tl_conv2d *a, const copied *c, int k)
{
    const int taps = a->kh * a->kw, chan = k / taps, tap = k - chan * taps, row = tap / a->kw;
    return chan * c->plane + row * a->dil_h * c->pitch + (tap - row * a->kw) * a->dil_w;
}

/* This core's share of the weights, four output channels x one summed channel at a time; missing ones repeat the first.
 */
static __attribute__((noinline)) void pack_weights(const tl_conv2d *a, const copied *c)
{
    const int down = a->dil_h * c->pitch - (a->kw - 1) * a->dil_w, taps = a->kh * a->kw;
    const int next = c->plane - (a->kh - 1) * a->dil_h * c->pitch - (a->kw - 1) * a->dil_w;
    int lo, hi;
    tl_split_among(tl_team(a->team), a->groups * c->tiles * a->ci, 1, &lo, &hi);
    for (; lo < hi; ++lo) {
        const int of = lo / a->ci, chan = lo - of * a->ci, group = of / c->tiles, tile = of - group * c->tiles;
        const int left = a->co - 4 * tile;
        const float *w0 = a->w + (group * a->co + 4 * tile) * a->w_co + chan * a->w_ci;
        const float *w1 = left > 1 ? w0 + a->w_co : w0, *w2 = left > 2 ? w1 + a->w_co : w0;
        const float *w3 = left > 3 ? w2 + a->w_co : w0;
        tl_twos_term *to = c->weights + lo * taps;
        for (int y = a->kh; y > 0; --y)
            for (int x = a->kw; x > 0; --x, ++to) {
                const int step = x > 1 ? a->dil_w : y > 1 ? down : next;
                to->step = (int)sizeof(float) * step - TL_PAIR_BYTES;
                to->w[0] = *w0++, to->w[1] = *w1++, to->w[2] = *w2++, to->w[3] = *w3++;
            }
    }
}

/* All terms of tiles that are stored whole. */
static __attribute__((noinline)) void whole(const tl_plane_panel *p, int count)
{
    const float *base = p->bias && !p->accumulate ? p->bias : p->out;
    int end = p->accumulate || p->bias ? TL_ADD : TL_SET;
    for (int done = 0; done < p->terms; done += TL_KC) {
        tl_plane_twos(p, done, end, base, p->out, count);
        base = p->out, end = TL_ADD;
        TL_ONE_POINTER(base) /* not a copy for the first block */
        TL_ONE_POINTER(end)
    }
}

/* This core's share of the tiles. */
static __attribute__((noinline)) void multiply(const tl_conv2d *a, const copied *c)
{
    const int pixels = a->ho * a->wo, panels = (pixels + 3) >> 2, tiles = c->tiles, over = a->co & 3;
    const int down = a->stride_h * c->pitch, next_row = down - 2 * (a->wo - 2);
    tl_plane_panel p = {.out_c = a->yp.c, .terms = a->ci * a->kh * a->kw, .accumulate = a->accumulate};
    int lo, hi, places[MOST_BLOCKS + 1];
    for (int i = 0, k = 0; k < p.terms; k += TL_KC)
        places[i++] = place_of(a, c, k), places[i] = a->ci * c->plane;
    p.places = places;
    tl_split_among(tl_team(a->team), a->groups * a->n * panels * tiles, 1, &lo, &hi);
    int at = lo / tiles, first = lo - at * tiles, plane = at / panels, from = 4 * (at - plane * panels);
    int row = from / a->wo, column = from - row * a->wo;
    for (int count; lo < hi; lo += count, first = 0) {
        const int skip = from + 4 > pixels ? from + 4 - pixels : 0;
        const int n = a->groups == 1 ? plane : plane / a->groups, group = plane - n * a->groups;
        const int channel = group * a->co + 4 * first;
        count = tl_min(tiles - first, hi - lo);
        const int last = over && first + count == tiles, all = count - last;
        if (skip) {
            const int back = column == 0;
            column += back ? a->wo - 2 : -2, row -= back;
        }
        p.in = c->planes + plane * a->ci * c->plane + row * down + 2 * column;
        p.apart = column + 2 < a->wo ? 4 : next_row;
        p.out = a->y + n * a->yp.n + channel * a->yp.c + from - skip;
        p.w = (const float *)(c->weights + (group * tiles + first) * p.terms);
        p.bias = a->bias ? a->bias + channel : NULL;
        if (skip)
            tl_plane_edge(&p, all, 4, skip, TL_PLANE_TWOS);
        else if (all)
            whole(&p, all);
        if (last) {
            p.out += 4 * all * p.out_c, p.bias += a->bias ? 4 * all : 0, p.w += all * p.terms * TL_TWOS_WORDS;
            tl_plane_edge(&p, 1, over, skip, TL_PLANE_TWOS);
        }
        from += 4;
        for (column += 4; column >= a->wo; ++row)
            column -= a->wo;
        if (from >= pixels)
            from = row = column = 0, ++plane;
    }
}

void tl_conv2d_fw_twos_s2_f32(const tl_conv2d *a)
{
    const copied c = copied_of(a);
    TL_PROMISE(a->stride_w == 2 && a->wo % 2 == 0 && a->ho * a->wo >= 4 && (a->ho == 1 || a->yp.h == a->wo));
    TL_PROMISE(a->ci * a->kh * a->kw <= MOST_BLOCKS * TL_KC);
    const tl_around around = {.from = a->x,
                              .pitch = a->xp,
                              .n = a->n,
                              .channels = a->groups * a->ci,
                              .h = a->h,
                              .wd = a->wd,
                              .top = -a->pad_h,
                              .left = -a->pad_w,
                              .rows = c.rows,
                              .columns = c.pitch,
                              .team = a->team,
                              .to = c.planes};
    tl_around_copy(&around);
    pack_weights(a, &c);
    tl_barrier();
    multiply(a, &c);
}
