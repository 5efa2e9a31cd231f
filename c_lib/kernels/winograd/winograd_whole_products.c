/* Products of all 16 elements of transformed pairs, channels x tiles, and outputs, A' M A, of these. */
#define TL_HALVES
#define TL_ELEMENTS 16
#include "tl_winograd_pairs_sums.h"
#include "tl_winograd_whole.h"

static __attribute__((noinline)) void to_halves(const tl_gather *g, const float *m, const float *bias, tl_half *to,
                                                int below, int count)
{
    tl_whole_to_halves(g, m, bias, to, below, 4, count);
}

void tl_winograd_whole_products(const void *of, int at, int first, int count)
{
    const tl_winograd_pairs *t = of;
    const tl_gather *g = t->g;
    const int each = t->pairs * TL_WINOGRAD_WHOLE, rows = t->group * g->rows + t->channel, fours = (t->rows + 3) / 4;
    const int alone = t->first && t->last;
    const tl_tile_at tile = tl_tile_of(4 * (t->panel + at), t->high, t->wide);
    const int from = tile.n * g->out_p.n + 2 * tile.y * g->out_p.h + 2 * tile.x;
    const int together = g->out_f16 && tile.x + 4 <= t->wide && 2 * tile.x + 8 <= g->x.count &&
                         (((uintptr_t)(g->out_f16 + from) >> 1 | (unsigned)g->out_p.h | (unsigned)g->out_p.c) & 1) == 0;
    for (int four = first; four < first + count; ++four) {
        const int channel = rows + 4 * four;
        float *m = t->m + (alone ? tl_core_id() : at * fours + four) * 4 * TL_WINOGRAD_UNIT;
        if (t->first)
            new_sums(t->u + four * each, t->v + at * each, t->pairs, m);
        else
            more_sums(t->u + four * each, t->v + at * each, t->pairs, m);
        if (!t->last)
            continue;
        if (together)
            to_halves(g, m, g->bias ? g->bias + channel : NULL, g->out_f16 + channel * g->out_p.c + from,
                      2 * tile.y + 1 < g->y.count, tl_min(4, t->rows - 4 * four));
        else
            tl_winograd_whole_outputs(t, m, at, four);
    }
}
