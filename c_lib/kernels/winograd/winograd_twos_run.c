/* Convolutions by Winograd's algorithm, two rows of the transformed 4 x 4 at a time: in which order. */
#include "tl_winograd_twos.h"

static void run_rows(tl_winograd *t, int panels, int every)
{
    for (t->panel = 0; t->panel < every; t->panel += panels) {
        t->panels = tl_min(panels, every - t->panel);
        if (t->panel == 0)
            tl_winograd_share(t, (t->rows + 3) & ~3, t->chans, tl_winograd_twos_weights);
        tl_winograd_share(t, t->panels, t->chans, tl_winograd_twos_inputs);
        tl_barrier();
        tl_winograd_share(t, t->panels, (t->rows + 3) / 4, tl_winograd_twos_products);
        tl_barrier();
    }
}

void tl_winograd_twos_run(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd t = tl_winograd_of(g, turned);
    const int every = (g->n * t.high * t.wide + 3) / 4, panels = tl_min(a->tiles / 4, every);
    const int rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4);
    t.chans = g->chans;
    t.u = (float *)a->scratch, t.v = t.u + 2 * rows * g->chans * 4;
    t.m = t.v + 2 * panels * g->chans * 16 + tl_core_id() * TL_TOGETHER * 4 * TL_EIGHT;
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            for (t.row = 0; t.row < 4; t.row += 2)
                run_rows(&t, panels, every);
        }
    }
}
