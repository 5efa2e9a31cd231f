/* Convolutions of halves by Winograd's algorithm: in which order. */
#define TL_HALVES
#include "tl_winograd_pairs.h"

/* A row of the transformed 4 x 4 of the panels and channels of the outputs that are chosen. */
static void run_row(tl_winograd_pairs *t, int chans)
{
    const int all = t->g->chans, fours = (t->rows + 3) / 4;
    for (t->chan = 0; t->chan < all; t->chan += chans) {
        t->pairs = (tl_min(chans, all - t->chan) + 1) / 2;
        t->first = t->chan == 0, t->last = t->chan + chans >= all;
        tl_winograd_share(t, 4 * fours, t->pairs, tl_winograd_pairs_weights);
        tl_winograd_share(t, t->panels, t->pairs, tl_winograd_pairs_inputs);
        tl_barrier();
        tl_winograd_share(t, t->panels, fours, tl_winograd_pairs_products);
        tl_barrier();
    }
}

void tl_winograd_pairs_run(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd_pairs t = {.g = g,
                           .turned = turned,
                           .words = TL_WINOGRAD_PAIR,
                           .high = (g->y.count + 1) / 2,
                           .wide = (g->x.count + 1) / 2};
    const int every = (g->n * t.high * t.wide + 3) / 4, panels = tl_min(a->tiles / 4, every);
    const int rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4), chans = tl_min(a->chans, g->chans);
    const int pairs = (chans + 1) / 2;
    t.u = g->scratch, t.v = t.u + rows / 4 * pairs * TL_WINOGRAD_PAIR;
    t.y = (float *)(t.v + panels * pairs * TL_WINOGRAD_PAIR), t.m = t.y + panels * (rows / 4) * TL_WINOGRAD_UNIT;
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            for (t.panel = 0; t.panel < every; t.panel += panels) {
                t.panels = tl_min(panels, every - t.panel);
                for (t.row = 0; t.row < 4; ++t.row)
                    run_row(&t, chans);
            }
        }
    }
}
