/* All 16 elements of the transformed inputs of pairs of channels. */
#define TL_HALVES
#include "tl_winograd_whole_xpulp.h"

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
    tl_winograd_whole_four(&rows, t->v + (at * t->pairs + first) * TL_WINOGRAD_WHOLE, count);
}
