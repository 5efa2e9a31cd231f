/* Convolutions by Winograd's algorithm, where every core has panels of its own: what it transforms it multiplies, and
 * what it multiplies it adds to the outputs. All wait for weights alone. */
#include "tl_winograd.h"

static void run_row(tl_winograd *t, int first, int end)
{
    const int fours = (t->rows + 3) / 4, step = t->chans * 16;
    tl_barrier(); /* the last row's weights have been read */
    tl_winograd_share(t, 4 * fours, t->chans, tl_winograd_weights);
    tl_barrier();
    for (t->panel = first; t->panel < end; ++t->panel) {
        tl_winograd_inputs(t, 0, 0, t->chans);
        tl_winograd_chains(t->u, step, t->v, t->m, fours, t->chans, 4);
        tl_winograd_outputs(t, 0, 0, t->rows);
    }
}

void tl_winograd_panels(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd t = tl_winograd_of(g, turned);
    const int rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4), cores = tl_num_cores(), core = tl_core_id();
    int first, end;
    tl_split((g->n * t.high * t.wide + 3) / 4, 1, &first, &end);
    t.panels = 1, t.chans = g->chans;
    t.u = (float *)a->scratch, t.v = t.u + rows * g->chans * 4, t.m = t.v + cores * g->chans * 16;
    t.v += core * g->chans * 16, t.m += core * rows * 16;
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            for (t.row = 0; t.row < 4; ++t.row)
                run_row(&t, first, end);
        }
    }
}
