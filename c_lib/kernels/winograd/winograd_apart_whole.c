/* Inputs and outputs of panels whose tiles are in two rows of an image, or not whole, with all rows of the transformed
 * 4 x 4 at once. */
#define TL_HALVES
#include "tl_winograd_whole.h"

/* Two tiles side by side of each of so many pairs. */
static __attribute__((noinline)) void two(const tl_four_rows *r, tl_pair *v, int count)
{
    tl_whole_tiles(r, v, count, 2);
}

void tl_winograd_whole_apart(const tl_winograd_pairs *t, int at, int first, int count)
{
    const tl_gather *g = t->g;
    const int inside = g->x.in0 + 2 * t->wide + 1 <= g->x.extent;
    const int chan = t->chan + 2 * first, lone = chan + 2 * count > g->chans;
    if (lone || t->wide % 2 != 0 || g->x.in0 < -1 || !inside) {
        for (int row = 0; row < 4; ++row)
            tl_winograd_pairs_row(t, row, at, first, count);
        return;
    }
    tl_tile_at tile = tl_tile_of(4 * (t->panel + at), t->high, t->wide);
    tl_pair *v = t->v + (at * t->pairs + first) * TL_WINOGRAD_WHOLE;
    for (int j = 0; j < 4; j += 2) {
        tl_four_rows rows;
        tl_winograd_whole_rows(t, &tile, 2, chan, &rows);
        two(&rows, v + j, count);
        tl_next_tile(&tile, t->high, t->wide), tl_next_tile(&tile, t->high, t->wide);
    }
}

/* As tl_winograd_pairs_outputs has them. */
static void back(float *m)
{
    for (const float *end = m + 16; m < end; ++m) {
        const tl_four_outputs y = tl_outputs_of(m);
        m[0] = y.upper.even, m[16] = y.upper.odd, m[32] = y.lower.even, m[48] = y.lower.odd;
    }
}

void tl_winograd_whole_outputs(const tl_winograd_pairs *t, float *m, int at, int four)
{
    const tl_gather *g = t->g;
    const int number = 4 * (t->panel + at), left = tl_min(4, g->n * t->high * t->wide - number);
    const int channel = t->group * g->rows + t->channel + 4 * four, count = tl_min(4, t->rows - 4 * four);
    const int odd = (int)((uintptr_t)g->out_f16 >> 1) | g->x.count | g->out_p.h | g->out_p.c | g->out_p.n;
    if (!g->out_f16 || odd % 2 != 0) {
        back(m);
        tl_winograd_pairs_outputs(t, m, at, four);
        return;
    }
    tl_half *to = g->out_f16 + channel * g->out_p.c;
    tl_tile_at tile = tl_tile_of(number, t->high, t->wide);
    for (int j = 0, tiles; j < left; j += tiles) {
        const int from = tile.n * g->out_p.n + 2 * tile.y * g->out_p.h + 2 * tile.x;
        tiles = tl_min(left - j, t->wide - tile.x);
        tl_whole_to_halves(g, m + j, g->bias ? g->bias + channel : NULL, to + from, 2 * tile.y + 1 < g->y.count, tiles,
                           count);
        tile.x += tiles - 1;
        tl_next_tile(&tile, t->high, t->wide);
    }
}
