/* Weight gradient of a 3 x 3 convolution of halves, of stride 1, by Winograd's algorithm. */
#define TL_HALVES
#include "tl_promise.h"
#include "tl_winograd_pairs_bw_w.h"

/* One row of the transformed 4 x 4 of the tiles of a block. */
static void run_row(tl_winograd_pairs_bw_w *t, int block, int end, int tiles)
{
    for (t->tile = block; t->tile < end; t->tile += tiles) {
        t->tiles = tl_min(tiles, end - t->tile), t->pairs = (t->tiles + 1) / 2;
        t->first = t->tile == block, t->last = t->tile + tiles >= end;
        tl_winograd_share(t, (t->pairs + 1) / 2, (t->outs + 3) / 4, tl_winograd_pairs_bw_w_gradients);
        tl_winograd_share(t, (t->pairs + 1) / 2, (t->ins + 3) / 4, tl_winograd_pairs_bw_w_inputs);
        tl_barrier();
        tl_winograd_share(t, (t->outs + 3) / 4, (t->ins + 3) / 4, tl_winograd_pairs_bw_w_products);
        tl_barrier();
    }
}

/* All blocks, for the channels that are chosen. */
static void run_blocks(tl_winograd_pairs_bw_w *t)
{
    const int all = t->a->n * t->high * t->wide;
    for (int block = 0; block < all; block += TL_WINOGRAD_PAIRS_BLOCK) {
        t->begins = block == 0 && !t->a->accumulate;
        for (t->row = 0; t->row < 4; ++t->row)
            run_row(t, block, tl_min(all, block + TL_WINOGRAD_PAIRS_BLOCK), t->a->tiles);
    }
}

void tl_conv2d_bw_w_winograd_f16(const tl_conv2d *a)
{
    tl_winograd_pairs_bw_w t = {.a = a, .high = (a->ho + 1) / 2, .wide = (a->wo + 1) / 2, .z = a->scratch};
    const int outs = a->packed_rows, ins = a->chans, words = a->tiles / 2 * TL_WINOGRAD_PAIR;
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 1 && a->stride_w == 1 && a->dil_h == 1 && a->dil_w == 1);
    TL_PROMISE(outs % 4 == 0 && ins % 4 == 0 && a->tiles % 4 == 0 && a->tiles <= TL_WINOGRAD_PAIRS_BLOCK);
    t.v = t.z + outs / 4 * words, t.m = (float *)(t.v + ins / 4 * words);
    t.alone = a->tiles >= tl_min(a->n * t.high * t.wide, TL_WINOGRAD_PAIRS_BLOCK);
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
