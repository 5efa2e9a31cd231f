/* Convolutions by Winograd's algorithm: in which order. */
#include "tl_winograd.h"

/* The scratch of one row of the transformed 4 x 4: weights once, then panels of tiles, over all channels or in
 * turns. */
static void run_row(tl_winograd *t, int panels, int tiles, int chans)
{
    const int all = t->g->chans, filled = (t->rows + 3) & ~3;
    for (t->panel = 0; 4 * t->panel < tiles; t->panel += panels) {
        t->panels = tl_min(panels, (tiles + 3) / 4 - t->panel);
        for (t->chan = 0; t->chan < all; t->chan += chans) {
            t->chans = tl_min(chans, all - t->chan);
            if (t->panel == 0 || chans < all)
                tl_winograd_share(t, filled, t->chans, tl_winograd_weights);
            tl_winograd_share(t, t->panels, t->chans, tl_winograd_inputs);
            tl_barrier();
            tl_winograd_share(t, 4 * t->panels, filled / 4, tl_winograd_products);
            tl_barrier();
        }
        tl_winograd_share(t, t->panels, t->rows, tl_winograd_outputs);
    }
}

void tl_winograd_run(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd t = tl_winograd_of(g, turned);
    const int tiles = g->n * t.high * t.wide, panels = tl_min(a->tiles / 4, (tiles + 3) / 4);
    const int chans = tl_min(a->chans, g->chans), rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4);
    t.u = (float *)a->scratch, t.v = t.u + rows * chans * 4, t.m = t.v + panels * chans * 16;
    t.chain = t.m + (chans < TL_KC && g->chans > TL_KC ? rows * panels * 16 : 0);
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            for (t.row = 0; t.row < 4; ++t.row)
                run_row(&t, panels, tiles, chans);
        }
    }
}
