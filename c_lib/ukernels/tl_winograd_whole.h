/* Winograd's convolutions of halves with all rows of the transformed 4 x 4 at once, internal to c_lib/kernels: what a
 * panel of four tiles side by side shares with one that is in two rows of an image. */
#ifndef TL_WINOGRAD_WHOLE_H
#define TL_WINOGRAD_WHOLE_H
#include "tl_winograd_pairs.h" /* first: it sets how the whole file is compiled */

/* The four rows of an image that tiles are made of, in one channel, and from there to the next channel: nothing where a
 * row is outside. */
typedef struct {
    const tl_half *p[4];
    int next[4];
    int left, right; /* whether the first and the last column are inside, as all others are */
} tl_four_rows;

/* A column of B' d, of a pair of channels. */
typedef struct {
    tl_pair row[4];
} tl_four_pairs;

#define TL_COLUMN(j) tl_column_of(p0 + (j), q0 + (j), p1 + (j), q1 + (j), p2 + (j), q2 + (j), p3 + (j), q3 + (j))
#define TL_OUTSIDE ((tl_four_pairs){{0, 0, 0, 0}})
static inline
    __attribute__((always_inline)) tl_four_pairs tl_column_of(const tl_half *p0, const tl_half *q0, const tl_half *p1,
                                                              const tl_half *q1, const tl_half *p2, const tl_half *q2,
                                                              const tl_half *p3, const tl_half *q3)
{
    const tl_pair a = tl_pair_of(*p0, *q0), b = tl_pair_of(*p1, *q1), c = tl_pair_of(*p2, *q2);
    const tl_pair d = tl_pair_of(*p3, *q3);
    return (tl_four_pairs){{tl_pair_minus(a, c), tl_pair_plus(b, c), tl_pair_minus(c, b), tl_pair_minus(b, d)}};
}

/* A tile of its columns. */
static inline __attribute__((always_inline)) void tl_across(tl_pair *v, tl_four_pairs a, tl_four_pairs b,
                                                            tl_four_pairs c, tl_four_pairs d)
{
    for (int i = 0; i < 4; ++i) {
        v[16 * i] = tl_pair_minus(a.row[i], c.row[i]), v[16 * i + 4] = tl_pair_plus(b.row[i], c.row[i]);
        v[16 * i + 8] = tl_pair_minus(c.row[i], b.row[i]), v[16 * i + 12] = tl_pair_minus(b.row[i], d.row[i]);
    }
}

/* Tiles side by side, of each of so many pairs of channels. Literal: tiles, two or four. */
static inline __attribute__((always_inline)) void tl_whole_tiles(const tl_four_rows *r, tl_pair *v, int count,
                                                                 int tiles)
{
    const tl_half *p0 = r->p[0], *p1 = r->p[1], *p2 = r->p[2], *p3 = r->p[3];
    for (; count > 0; --count, v += TL_WINOGRAD_WHOLE) {
        const tl_half *q0 = p0 + r->next[0], *q1 = p1 + r->next[1], *q2 = p2 + r->next[2], *q3 = p3 + r->next[3];
        const tl_four_pairs a = r->left ? TL_COLUMN(0) : TL_OUTSIDE, b = TL_COLUMN(1);
        const tl_four_pairs c = TL_COLUMN(2), d = TL_COLUMN(3);
        tl_across(v, a, b, c, d);
        const tl_four_pairs e = TL_COLUMN(4), f = tiles == 4 || r->right ? TL_COLUMN(5) : TL_OUTSIDE;
        tl_across(v + 1, c, d, e, f);
        if (tiles == 4) {
            const tl_four_pairs g = TL_COLUMN(6), h = TL_COLUMN(7);
            tl_across(v + 2, e, f, g, h);
            const tl_four_pairs i = TL_COLUMN(8), j = r->right ? TL_COLUMN(9) : TL_OUTSIDE;
            tl_across(v + 3, g, h, i, j);
        }
        p0 = q0 + r->next[0], p1 = q1 + r->next[1], p2 = q2 + r->next[2], p3 = q3 + r->next[3];
    }
}

/* Two neighbours in a row. */
typedef struct {
    float even, odd;
} tl_two_outputs;

/* Two rows of two outputs. */
typedef struct {
    tl_two_outputs upper, lower;
} tl_four_outputs;

/* A row of M A; the halves stand where they are part of a fused multiply-add. */
static inline __attribute__((always_inline)) tl_two_outputs tl_shares_of(const float *m)
{
    const float a = m[0], b = m[16], c = m[32], d = m[48], sum = b + c, difference = b - c;
    return (tl_two_outputs){__builtin_fmaf(0.5f, sum, a), __builtin_fmaf(0.5f, difference, -d)};
}

static inline __attribute__((always_inline)) tl_four_outputs tl_outputs_of(const float *m)
{
    const tl_two_outputs a = tl_shares_of(m), b = tl_shares_of(m + 64);
    const tl_two_outputs c = tl_shares_of(m + 128), d = tl_shares_of(m + 192);
    const tl_two_outputs upper = {__builtin_fmaf(0.5f, b.even, a.even), __builtin_fmaf(0.5f, b.odd, a.odd)};
    const tl_two_outputs lower = {0.5f * b.even, 0.5f * b.odd};
    return (tl_four_outputs){
        {__builtin_fmaf(0.5f, c.even, upper.even), __builtin_fmaf(0.5f, c.odd, upper.odd)},
        {__builtin_fmaf(-0.5f, c.even, lower.even) - d.even, __builtin_fmaf(-0.5f, c.odd, lower.odd) - d.odd}};
}

/* Outputs of so many tiles side by side, at even places, for so many channels. */
static inline __attribute__((always_inline)) void
tl_whole_to_halves(const tl_gather *g, const float *m, const float *bias, tl_half *to, int below, int tiles, int count)
{
    const int next_row = g->out_p.h, next = g->out_p.c;
    for (; count > 0; --count, to += next, m += 4 - tiles) {
        const float start = bias ? *bias++ : 0.0f;
        tl_pair *upper = (tl_pair *)to, *lower = below ? (tl_pair *)(to + next_row) : upper;
        for (const float *end = m + tiles; m < end; ++m) {
            const tl_four_outputs y = tl_outputs_of(m);
            *lower++ = tl_pair_rounded(y.lower.even + start, y.lower.odd + start);
            *upper++ = tl_pair_rounded(y.upper.even + start, y.upper.odd + start);
        }
    }
}

/* The rows that so many tiles from this one on are made of, side by side. */
void tl_winograd_whole_rows(const tl_winograd_pairs *t, const tl_tile_at *tile, int tiles, int chan, tl_four_rows *r);

/* Inputs of four tiles side by side, of so many pairs of channels. */
void tl_winograd_whole_four(const tl_four_rows *r, tl_pair *v, int count);

/* Panels that are not four tiles side by side: inputs of `count` pairs, outputs of up to four channels from m, which
 * changes. */
void tl_winograd_whole_apart(const tl_winograd_pairs *t, int at, int first, int count);
void tl_winograd_whole_outputs(const tl_winograd_pairs *t, float *m, int at, int four);
#endif
