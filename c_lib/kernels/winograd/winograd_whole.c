/* Convolutions of halves by Winograd's algorithm, all rows of the transformed 4 x 4 at once: in which order. */
#define TL_HALVES
#include "tl_promise.h"
#include "tl_winograd_pairs.h"

/* The panels and channels of the outputs that are chosen, all summed channels at a time or a part of them. */
static void run_panels(tl_winograd_pairs *t, int chans)
{
    const int all = t->g->chans, fours = (t->rows + 3) / 4;
    for (t->chan = 0; t->chan < all; t->chan += chans) {
        t->pairs = (tl_min(chans, all - t->chan) + 1) / 2;
        t->first = t->chan == 0, t->last = t->chan + chans >= all;
        if (t->panel == 0 || chans < all)
            tl_winograd_share(t, 4 * fours, t->pairs, tl_winograd_whole_weights);
        tl_winograd_share(t, t->panels, t->pairs, tl_winograd_whole_inputs);
        tl_barrier();
        tl_winograd_share(t, t->panels, fours, tl_winograd_whole_products);
        tl_barrier();
    }
}

void tl_winograd_whole_run(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd_pairs t = {.g = g, .turned = turned, .words = TL_WINOGRAD_WHOLE, .next_row = TL_WINOGRAD_PAIR};
    t.high = (g->y.count + 1) / 2, t.wide = (g->x.count + 1) / 2;
    const int every = (g->n * t.high * t.wide + 3) / 4, panels = tl_min(a->tiles / 4, every);
    const int rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4), chans = tl_min(a->chans, g->chans);
    const int pairs = (chans + 1) / 2;
    TL_PROMISE(chans % 2 == 0 || chans == g->chans);
    t.u = g->scratch, t.v = t.u + rows / 4 * pairs * TL_WINOGRAD_WHOLE;
    t.m = (float *)(t.v + panels * pairs * TL_WINOGRAD_WHOLE);
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            for (t.panel = 0; t.panel < every; t.panel += panels) {
                t.panels = tl_min(panels, every - t.panel);
                run_panels(&t, chans);
            }
        }
    }
}
