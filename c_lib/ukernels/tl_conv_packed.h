/* Input gradients with weights that the team packs block by block; internal to c_lib/kernels. */
#ifndef TL_CONV_PACKED_H
#define TL_CONV_PACKED_H
#include "tl_conv_share.h"

/* One class of outputs, with weights packed already. */
typedef void (*tl_conv_class)(const tl_gather *g, int group, int groups, int row0, int tiles, int k0, int k1,
                              float *own, const float *shared);

/* Room for packed weights comes after the cores' own. */
TL_SHARE void tl_conv_run_packed(const tl_gather *g, int kernel_taps, tl_conv_class share)
{
    const int terms = g->chans * g->y.taps * g->x.taps, floats = tl_conv_own(kernel_taps);
    float *own = (float *)g->scratch + tl_core_id() * floats, *shared = (float *)g->scratch + g->team * floats;
    if (g->n * g->y.count * g->x.count == 0)
        return;
    if (terms == 0) {
        tl_conv_fill(g);
        return;
    }
    for (int group = 0; group < g->groups; ++group) {
        for (int row = 0; row < g->rows; row += g->packed_rows) {
            const int tiles = (tl_min(g->packed_rows, g->rows - row) + 3) / 4;
            for (int k = 0; k < terms; k += TL_KC) {
                const int k1 = tl_min(k + TL_KC, terms);
                tl_conv_pack(g, g->w + group * g->w_group, row, tiles, k, k1 - k, shared);
                tl_barrier();
                share(g, group, 1, row, tiles, k, k1, own, shared);
                tl_barrier();
            }
        }
    }
}
#endif
