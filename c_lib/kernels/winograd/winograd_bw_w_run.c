/* Weight gradients by Winograd's algorithm: in which order. */
#include "tl_winograd_bw_w.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

/* One row of the transformed 4 x 4 of one block. */
static void run_row(tl_winograd_bw_w *t, int end, int tiles)
{
    for (t->tile = t->block; t->tile < end; t->tile += tiles) {
        t->tiles = tl_min(tiles, end - t->tile);
        tl_winograd_share(t, (t->tiles + 3) / 4, t->outs, tl_winograd_bw_w_gradients);
        tl_winograd_share(t, (t->tiles + 3) / 4, t->ins, tl_winograd_bw_w_inputs);
        tl_barrier();
        tl_winograd_share(t, (t->ins + 3) / 4 * 4, (t->outs + 3) / 4, tl_winograd_bw_w_products);
        tl_barrier();
    }
    tl_winograd_share(t, t->ins, t->outs, tl_winograd_bw_w_weights);
}

/* All blocks, for the channels that are chosen. */
static void run_blocks(tl_winograd_bw_w *t)
{
    const int all = t->a->n * t->high * t->wide;
    for (t->block = 0; t->block < all; t->block += TL_WINOGRAD_BLOCK)
        for (t->row = 0; t->row < 4; ++t->row)
            run_row(t, tl_min(all, t->block + TL_WINOGRAD_BLOCK), t->a->tiles);
}

void tl_winograd_bw_w_run(const tl_conv2d *a)
{
    tl_winograd_bw_w t = {.a = a, .high = (a->ho + 1) / 2, .wide = (a->wo + 1) / 2, .z = a->scratch};
    const int outs = a->packed_rows, ins = a->chans;
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(outs % 4 == 0 && ins % 4 == 0 && a->tiles % 4 == 0 && a->tiles <= TL_WINOGRAD_BLOCK);
    t.v = t.z + outs * a->tiles * 4, t.m = t.v + ins * a->tiles * 4;
    for (t.group = 0; t.group < a->groups; ++t.group) {
        for (t.out = 0; t.out < a->co; t.out += outs) {
            t.outs = tl_min(outs, a->co - t.out);
            for (t.in = 0; t.in < a->ci; t.in += ins) {
                t.ins = tl_min(ins, a->ci - t.in);
                run_blocks(&t);
            }
        }
    }
}
