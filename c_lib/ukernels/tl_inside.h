/* Convolutions of 3 x 3 taps and their input gradients without padding, in tiles of 4 channels x 3 or 4 neighbours of a
 * row, or 2 channels x 8; internal to c_lib/kernels. Operands are read where they lie, and what would meet a zero
 * around the image is left out. */
#ifndef TL_INSIDE_H
#define TL_INSIDE_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"

/* Of one tile; distances in bytes. */
typedef struct {
    const float *in, *w; /* of the first summed channel, and of its first kernel row that meets the image */
    int in_rest;         /* from the elements of a kernel row to the next row's */
    int w_row, w_rest;   /* from the tile's channel to the next, and from the last one to the next tap */
    int in_next, w_next; /* from the end of a summed channel's rows to the next one's */
    float *out;          /* the leftmost pixel */
    int out_c;
    const float
        *base; /* what the first block is added to; from the last pixel to the next channel, and between pixels */
    int base_rest, base_x;
    const int *plan;
    int in_row;
    float zero;
} tl_inside;

/* Pixel q of a tile meets element q + tap of a row. Where dL/dy begins or ends, tiles of four pixels meet four
 * elements, and those beyond are left out. A whole row is eight pixels of two channels, which meet six. */
enum { TL_MIDDLE, TL_LEFT, TL_RIGHT, TL_WHOLE };
enum { TL_INSIDE_WIDE = 8 }; /* pixels at most */

/* Plan of a tile: for each block of 64 terms, those that are left out among them, so many summed channels with so many
 * kernel rows each, more such pairs, zero, and what then comes. A block that begins in the middle of a kernel row
 * begins with what is left of that. */
enum { TL_INSIDE_TAPS = 3, TL_INSIDE_BACK = 4, TL_INSIDE_NEXT = 8, TL_INSIDE_END = -1 };
enum { TL_INSIDE_CHANS = 32, TL_INSIDE_PLAN = 64 }; /* at most */

#include "tl_inside_xpulp.h"

#define TL_INSIDE static inline __attribute__((always_inline))

TL_INSIDE int tl_inside_wide(int where)
{
    return where == TL_MIDDLE ? 3 : where == TL_WHOLE ? TL_INSIDE_WIDE : 4;
}

/* Of the kernel rows from `top` on, so many. */
static __attribute__((noinline)) void tl_inside_plan(int *plan, int chans, int top, int rows)
{
    int left = TL_KC, more = rows; /* of a channel: terms before the block's end, and rows */
    *plan++ = 0;                   /* comes before the first block */
    for (int end = 0; !end; left += TL_KC) {
        int whole = tl_min(chans, (left * 57) >> 9), then = 0; /* by 9 */
        chans -= whole, left -= 9 * whole, end = chans == 0;
        if (more < rows)
            *plan++ = 1, *plan++ = more, --whole;
        if (whole > 0)
            *plan++ = whole, *plan++ = rows;
        more = rows;
        if (!end) {
            const int cut = tl_min(tl_max(left - 3 * top, 0), 3 * rows), before = (cut * 11) >> 5;
            then = cut - 3 * before;
            more = rows - before - (then > 0);
            if (before > 0)
                *plan++ = 1, *plan++ = before, then += TL_INSIDE_BACK;
            if (more == 0)
                then += TL_INSIDE_NEXT, more = rows, left -= 9, --chans;
        }
        *plan++ = 0;
        *plan++ = then;
    }
    *plan = TL_INSIDE_END;
}

#ifndef TL_XPULP_INSIDE
TL_INSIDE const float *tl_inside_by(const float *p, int bytes)
{
    return (const float *)((const char *)p + bytes);
}

/* Channels at a time, whose sums stay in registers. */
TL_INSIDE int tl_inside_chans(int where)
{
    return where == TL_WHOLE ? 1 : 2;
}

/* One term. Literals: step, 1 or -1, from element to element; tap; where. */
TL_INSIDE void tl_inside_term(float (*s)[TL_INSIDE_WIDE], const float *w, int w_row, const float *in, int step, int tap,
                              int where)
{
    const int far = where == TL_RIGHT || where == TL_WHOLE ? 2 : 0, from = far ? far - tap : 0;
    const int wide = tl_inside_wide(where), end = where == TL_LEFT || where == TL_WHOLE ? wide - tap : wide;
    TL_UNROLLED
    for (int r = 0; r < tl_inside_chans(where); ++r, w += w_row) {
        TL_UNROLLED
        for (int q = from; q < end; ++q)
            s[r][q] = __builtin_fmaf(*w, in[step * (q + tap - far)], s[r][q]);
    }
}

TL_INSIDE void tl_inside_some(const tl_inside *t, const float *w, const float *base, float *out, int step, int where)
{
    const int wide = tl_inside_wide(where), w_row = t->w_row / 4, out_c = t->out_c / 4;
    const float *in = t->in;
    int base_c = (t->base_rest + (wide - 1) * t->base_x) / 4, base_x = t->base_x / 4;
    const int *plan = t->plan;
    do {
        float s[2][TL_INSIDE_WIDE] = {{0.0f}};
        const int then = *plan++, taps = then & TL_INSIDE_TAPS;
        if (taps == 1)
            tl_inside_term(s, w + 1, w_row, in, step, 1, where);
        if (taps > 0)
            tl_inside_term(s, w + 2, w_row, in, step, 2, where), w += 3, in = tl_inside_by(in, t->in_row);
        if (then & TL_INSIDE_NEXT)
            in = tl_inside_by(in, t->in_next), w = tl_inside_by(w, t->w_next);
        for (int count = *plan++; count > 0; count = *++plan, ++plan)
            for (; count > 0; --count) {
                for (int rows = *plan; rows > 0; --rows, in = tl_inside_by(in, t->in_row), w += 3) {
                    TL_UNROLLED
                    for (int tap = 0; tap < 3; ++tap)
                        tl_inside_term(s, w + tap, w_row, in, step, tap, where);
                }
                in = tl_inside_by(in, t->in_next), w = tl_inside_by(w, t->w_next);
            }
        if (*plan & TL_INSIDE_BACK)
            in = tl_inside_by(in, -t->in_next), w = tl_inside_by(w, -t->w_next);
        if ((*plan & TL_INSIDE_TAPS) > 0)
            tl_inside_term(s, w, w_row, in, step, 0, where);
        if ((*plan & TL_INSIDE_TAPS) > 1)
            tl_inside_term(s, w + 1, w_row, in, step, 1, where);
        TL_UNROLLED
        for (int r = 0; r < tl_inside_chans(where); ++r) {
            TL_UNROLLED
            for (int x = 0; x < wide; ++x)
                out[r * out_c + x] = base[r * base_c + x * base_x] + s[r][step > 0 ? x : wide - 1 - x];
        }
        base = out, base_c = out_c, base_x = 1;
    } while (plan[1] != TL_INSIDE_END);
}

TL_INSIDE void tl_inside_tile(const tl_inside *t, int step, int where)
{
    const int many = tl_inside_chans(where), base_c = t->base_rest + (tl_inside_wide(where) - 1) * t->base_x;
    const float *w = t->w, *base = t->base;
    float *out = t->out;
    for (int left = where == TL_WHOLE ? 2 : 4; left > 0; left -= many) {
        tl_inside_some(t, w, base, out, step, where);
        w = tl_inside_by(w, many * t->w_row), base = tl_inside_by(base, many * base_c), out += many * (t->out_c / 4);
    }
}
#endif

/* A core's items: rows of outputs fastest, then places of tiles in a row, tiles of channels, and images of a group. It
 * goes from one place's rows to the next one's. */
typedef struct {
    int left, rows, places, tiles, groups, half;
    int row, end, line; /* rows of this place, and which of all images' places it is */
    int place, tile, group, n;
} tl_inside_items;

/* A division takes 35 cycles. */
TL_INSIDE int tl_inside_part(int at, int size)
{
    return at < size ? 0 : at / size;
}

TL_INSIDE tl_inside_items tl_inside_share(const tl_conv2d *a, int rows, int places, int tiles)
{
    tl_inside_items i = {.rows = rows, .places = places, .tiles = tiles, .groups = a->groups};
    const int lines = a->n * a->groups * tiles * places;
    int lo, hi;
    tl_split(lines * rows, 1, &lo, &hi);
    i.half = lines / 2, i.line = lo / rows, i.row = lo - i.line * rows;
    const int tile = tl_inside_part(i.line, places), image = tl_inside_part(tile, tiles);
    i.place = i.line - tile * places, i.tile = tile - image * tiles;
    i.n = tl_inside_part(image, a->groups), i.group = image - i.n * a->groups;
    i.left = hi - lo, i.end = tl_min(rows, i.row + i.left);
    return i;
}

TL_INSIDE void tl_inside_next(tl_inside_items *i)
{
    i->left -= i->end - i->row;
    i->row = 0, i->end = tl_min(i->rows, i->left), ++i->line;
    if (++i->place < i->places)
        return;
    i->place = 0;
    if (++i->tile < i->tiles)
        return;
    i->tile = 0;
    if (++i->group == i->groups)
        i->group = 0, ++i->n;
}

/* What a tile's sums begin with. wide: pixels. */
TL_INSIDE void tl_inside_onto(tl_inside *t, const float *bias, int accumulate, int wide)
{
    t->zero = 0.0f;
    t->base = accumulate ? t->out : bias ? bias : &t->zero;
    t->base_x = accumulate ? 4 : 0;
    t->base_rest = accumulate ? t->out_c - 4 * (wide - 1) : bias ? 4 : 0;
}
#endif
