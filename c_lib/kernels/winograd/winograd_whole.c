/* Convolutions of halves by Winograd's algorithm, all rows of the transformed 4 x 4 at once: in which order. */
#define TL_HALVES
#include "tl_promise.h"
#include "tl_winograd_pairs.h"

void tl_winograd_whole_run(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd_pairs t = {.g = g, .turned = turned, .words = TL_WINOGRAD_WHOLE, .next_row = TL_WINOGRAD_PAIR};
    TL_PROMISE(a->chans >= g->chans);
    t.high = (g->y.count + 1) / 2, t.wide = (g->x.count + 1) / 2, t.pairs = (g->chans + 1) / 2;
    const int every = (g->n * t.high * t.wide + 3) / 4, panels = tl_min(a->tiles / 4, every);
    const int rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4), pairs = t.pairs;
    t.u = g->scratch, t.v = t.u + rows / 4 * pairs * TL_WINOGRAD_WHOLE;
    t.m = (float *)(t.v + panels * pairs * TL_WINOGRAD_WHOLE) + tl_core_id() * 4 * TL_WINOGRAD_UNIT;
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            const int fours = (t.rows + 3) / 4;
            tl_winograd_share(&t, 4 * fours, pairs, tl_winograd_whole_weights);
            for (t.panel = 0; t.panel < every; t.panel += panels) {
                t.panels = tl_min(panels, every - t.panel);
                tl_winograd_share(&t, t.panels, pairs, tl_winograd_whole_inputs);
                tl_barrier();
                tl_winograd_share(&t, t.panels, fours, tl_winograd_whole_products);
                tl_barrier();
            }
        }
    }
}
