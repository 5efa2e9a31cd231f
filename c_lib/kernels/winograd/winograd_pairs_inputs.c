/* A row of the transformed 4 x 4 inputs of pairs of channels, tiles side by side. */
#define TL_HALVES
#include "tl_winograd_pairs.h"

/* The two rows of an image that make it, in one channel, and from there to the next channel: nothing where a row is
 * outside. */
typedef struct {
    const tl_half *p, *q;
    int p_next, q_next;
    int left, right; /* whether the first and the last column are inside, as all others are */
} two_rows;

#define TL_COLUMN(j)                                                                                                   \
    (plus ? tl_pair_plus(tl_pair_of(p[j], p1[j]), tl_pair_of(q[j], q1[j]))                                             \
          : tl_pair_minus(tl_pair_of(p[j], p1[j]), tl_pair_of(q[j], q1[j])))
#define TL_ACROSS(j, a, b, c, d)                                                                                       \
    v[j] = tl_pair_minus(a, c), v[4 + j] = tl_pair_plus(b, c), v[8 + j] = tl_pair_minus(c, b),                         \
    v[12 + j] = tl_pair_minus(b, d);

/* Four tiles of each of so many pairs. */
static inline __attribute__((always_inline)) void four(const two_rows *r, int plus, tl_pair *v, int count)
{
    const tl_half *p = r->p, *q = r->q;
    const int left = r->left, right = r->right;
    for (; count > 0; --count, v += TL_WINOGRAD_PAIR, p += 2 * r->p_next, q += 2 * r->q_next) {
        const tl_half *p1 = p + r->p_next, *q1 = q + r->q_next;
        const tl_pair a = left ? TL_COLUMN(0) : 0, b = TL_COLUMN(1), c = TL_COLUMN(2), d = TL_COLUMN(3);
        TL_ACROSS(0, a, b, c, d)
        const tl_pair e = TL_COLUMN(4), f = TL_COLUMN(5);
        TL_ACROSS(1, c, d, e, f)
        const tl_pair g = TL_COLUMN(6), h = TL_COLUMN(7);
        TL_ACROSS(2, e, f, g, h)
        const tl_pair i = TL_COLUMN(8), j = right ? TL_COLUMN(9) : 0;
        TL_ACROSS(3, g, h, i, j)
    }
}

static __attribute__((noinline)) void four_plus(const two_rows *r, tl_pair *v, int count)
{
    four(r, 1, v, count);
}

static __attribute__((noinline)) void four_minus(const two_rows *r, tl_pair *v, int count)
{
    four(r, 0, v, count);
}

/* One tile, whose columns are inside from `from` to `to`, of each of so many pairs; the last one may have no
 * partner. */
static __attribute__((noinline)) void one(const two_rows *r, int plus, int from, int to, int lone, int words,
                                          tl_pair *v, int count)
{
    const tl_half *p = r->p, *q = r->q;
    for (; count > 0; --count, v += words, p += 2 * r->p_next, q += 2 * r->q_next) {
        const int alone = lone && count == 1;
        const tl_half *p1 = alone ? p : p + r->p_next, *q1 = alone ? q : q + r->q_next;
        const tl_pair mask = alone ? 0xffff : 0xffffffff;
        tl_pair column[4];
        for (int j = 0; j < 4; ++j)
            column[j] = j >= from && j < to ? TL_COLUMN(j) & mask : 0;
        TL_ACROSS(0, column[0], column[1], column[2], column[3])
    }
}

/* Those of the tile whose first input is `in`, in row y. */
static void rows_of(const tl_winograd_pairs *t, int row, const tl_half *in, int y, two_rows *r)
{
    const tl_gather *g = t->g;
    const int first = y + (0x1210 >> 4 * row & 3), second = y + (0x3122 >> 4 * row & 3);
    r->p = r->q = t->zeros, r->p_next = r->q_next = 0;
    if ((unsigned)first < (unsigned)g->y.extent)
        r->p = in + first * g->in_p.h, r->p_next = g->in_p.c;
    if ((unsigned)second < (unsigned)g->y.extent)
        r->q = in + second * g->in_p.h, r->q_next = g->in_p.c;
}

void tl_winograd_pairs_row(const tl_winograd_pairs *t, int row, int at, int first, int count)
{
    const tl_gather *g = t->g;
    const int chan = t->chan + 2 * first, lone = chan + 2 * count > g->chans, plus = row == 1;
    const tl_half *in = g->in + (t->group * g->chans + chan) * g->in_p.c;
    tl_pair *v = t->v + (at * t->pairs + first) * t->words + row * t->next_row;
    tl_tile_at tile = tl_tile_of(4 * (t->panel + at), t->high, t->wide);
    for (int j = 0; j < 4; ++j, ++v) {
        TL_ONE_POINTER(j) /* not four copies */
        const int x = g->x.in0 + 2 * tile.x, y = tile.n < g->n ? g->y.in0 + 2 * tile.y : -4;
        two_rows rows = {.left = x >= 0, .right = x + 9 < g->x.extent};
        rows_of(t, row, in + tile.n * g->in_p.n + x, y, &rows);
        if (j == 0 && !lone && tile.x + 4 <= t->wide && x >= -1 && x + 9 <= g->x.extent) {
            plus ? four_plus(&rows, v, count) : four_minus(&rows, v, count);
            return;
        }
        one(&rows, plus, -x, g->x.extent - x, lone, t->words, v, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}

void tl_winograd_pairs_inputs(const void *of, int at, int first, int count)
{
    tl_winograd_pairs_row(of, ((const tl_winograd_pairs *)of)->row, at, first, count);
}
