/* All 16 elements of the transformed inputs of pairs of channels. */
#define TL_HALVES
#include "tl_winograd_whole_xpulp.h"

/* Four tiles of each of so many pairs. */
static __attribute__((noinline)) void four(const tl_four_rows *r, tl_pair *v, int count)
{
    const tl_half *p0 = r->p[0], *p1 = r->p[1], *p2 = r->p[2], *p3 = r->p[3];
    for (; count > 0; --count, v += TL_WINOGRAD_WHOLE) {
        const tl_half *q0 = p0 + r->next[0], *q1 = p1 + r->next[1], *q2 = p2 + r->next[2], *q3 = p3 + r->next[3];
        const tl_four_pairs a = r->left ? TL_COLUMN(0) : TL_OUTSIDE, b = TL_COLUMN(1);
        const tl_four_pairs c = TL_COLUMN(2), d = TL_COLUMN(3);
        tl_across(v, a, b, c, d);
        const tl_four_pairs e = TL_COLUMN(4), f = TL_COLUMN(5);
        tl_across(v + 1, c, d, e, f);
        const tl_four_pairs g = TL_COLUMN(6), h = TL_COLUMN(7);
        tl_across(v + 2, e, f, g, h);
        const tl_four_pairs i = TL_COLUMN(8), j = r->right ? TL_COLUMN(9) : TL_OUTSIDE;
        tl_across(v + 3, g, h, i, j);
        p0 = q0 + r->next[0], p1 = q1 + r->next[1], p2 = q2 + r->next[2], p3 = q3 + r->next[3];
    }
}

#ifdef TL_XF16AUXVEC
/* Whether all second columns lie at even places, in every channel. */
static int even(const tl_four_rows *r)
{
    unsigned odd = 0;
    for (int i = 0; i < 4; ++i)
        odd |= (unsigned)((uintptr_t)(r->p[i] + 1) >> 1) | (unsigned)r->next[i];
    return odd % 2 == 0;
}

static __attribute__((noinline)) void four_by_words(const tl_four_rows *r, tl_pair *v, int count)
{
    tl_four_by_words(r, v, count);
}
#endif

void tl_winograd_whole_rows(const tl_winograd_pairs *t, const tl_tile_at *tile, int tiles, int chan, tl_four_rows *r)
{
    const tl_gather *g = t->g;
    const int x = g->x.in0 + 2 * tile->x, y = tile->n < g->n ? g->y.in0 + 2 * tile->y : -4;
    const tl_half *in = g->in + (t->group * g->chans + chan) * g->in_p.c + tile->n * g->in_p.n + y * g->in_p.h + x;
    r->left = x >= 0, r->right = x + 2 * tiles + 1 < g->x.extent;
    for (int i = 0; i < 4; ++i, in += g->in_p.h) {
        const int inside = (unsigned)(y + i) < (unsigned)g->y.extent;
        r->p[i] = inside ? in : t->zeros + 1, r->next[i] = inside ? g->in_p.c : 0;
    }
}

void tl_winograd_whole_inputs(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs *t = of;
    const tl_gather *g = t->g;
    const tl_tile_at tile = tl_tile_of(4 * (t->panel + at), t->high, t->wide);
    const int x = g->x.in0 + 2 * tile.x, chan = t->chan + 2 * first;
    const int lone = chan + 2 * count > g->chans;
    if (lone || tile.x + 4 > t->wide || x < -1 || x + 9 > g->x.extent) {
        tl_winograd_whole_apart(t, at, first, count);
        return;
    }
    tl_four_rows rows;
    tl_winograd_whole_rows(t, &tile, 4, chan, &rows);
#ifdef TL_XF16AUXVEC
    if (even(&rows)) {
        four_by_words(&rows, t->v + (at * t->pairs + first) * TL_WINOGRAD_WHOLE, count);
        return;
    }
#endif
    four(&rows, t->v + (at * t->pairs + first) * TL_WINOGRAD_WHOLE, count);
}
