/* Convolutions by Winograd's algorithm, two rows of the transformed 4 x 4 at a time, where every core has panels of its
 * own: all wait for weights alone. */
#include "tl_winograd_twos.h"

static void run_rows(tl_winograd *t, int first, int end)
{
    tl_barrier(); /* the last rows' weights have been read */
    tl_winograd_share(t, (t->rows + 3) & ~3, t->chans, tl_winograd_twos_weights);
    tl_barrier();
    for (t->panel = first; t->panel < end; ++t->panel) {
        tl_winograd_twos_inputs(t, 0, 0, t->chans);
        tl_winograd_twos_products(t, 0, 0, (t->rows + 3) / 4);
    }
}

void tl_winograd_twos_panels(const tl_gather *g, const tl_conv2d *a, int turned)
{
    tl_winograd t = tl_winograd_of(g, turned);
    const int rows = tl_min(a->packed_rows, (g->rows + 3) / 4 * 4), cores = tl_num_cores(), core = tl_core_id();
    int first, end;
    tl_split((g->n * t.high * t.wide + 3) / 4, 1, &first, &end);
    t.panels = 1, t.chans = g->chans;
    t.u = (float *)a->scratch, t.v = t.u + 2 * rows * g->chans * 4;
    t.m = t.v + 2 * cores * g->chans * 16 + core * TL_TOGETHER * 4 * TL_EIGHT;
    t.v += 2 * core * g->chans * 16;
    for (t.group = 0; t.group < g->groups; ++t.group) {
        for (t.channel = 0; t.channel < g->rows; t.channel += rows) {
            t.rows = tl_min(rows, g->rows - t.channel);
            for (t.row = 0; t.row < 4; t.row += 2)
                run_rows(&t, first, end);
        }
    }
}
