/* Weight gradients of 3 x 3 convolutions of stride 1 by Winograd's F(3x3, 2x2); internal to c_lib/kernels.
 *
 *   dW = G' [ sum over tiles of (A dY A') . (B' d B) ] G      with dY 2 x 2 gradients, d the 4 x 4 inputs behind them
 *
 * B', and A and G but for where their halves and signs stand, are those of tl_winograd.h:
 *
 *   A = 1  0     G' = 1  h  h  0     h = 1/2
 *       1  1          0  h -h  0
 *       1 -1          0  h  h -1
 *       0  1
 *
 * For each row of the transformed 4 x 4: gradients (`z`) and inputs (`v`) are transformed and multiplied, tiles being
 * the terms of the sums. Every TL_WINOGRAD_BLOCK tiles the sums (`m`) are transformed back and added to the weights. */
#ifndef TL_WINOGRAD_BW_W_H
#define TL_WINOGRAD_BW_W_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"
#include "tl_winograd_tiles.h"

#define TL_WINOGRAD_BLOCK 32 /* tiles in a chain */

typedef struct {
    const tl_conv2d *a;
    int high, wide; /* tiles of an image */
    int row;        /* of the transformed 4 x 4 */
    int group;
    int out, outs;   /* channels of the gradients in z, the first one within its group */
    int in, ins;     /* and of the inputs in v */
    int block;       /* its first tile */
    int tile, tiles; /* in z and v */
    float *z;        /* [outs / 4][tiles][4 elements of the row][4 channels] */
    float *v;        /* [ins / 4][tiles][4 elements][4 channels] */
    float *m;        /* [4 elements][ins / 4][outs][4 channels of inputs] */
    float zeros[10]; /* outside of the image; constants lie in L2 */
} tl_winograd_bw_w;

/* Four tiles from t->tile + 4 * at on, channels first .. first + count - 1. */
void tl_winograd_bw_w_gradients(const void *of, int at, int first, int count);
void tl_winograd_bw_w_inputs(const void *of, int at, int first, int count);
/* Four channels of inputs of one element, `at`; fours of channels of gradients. */
void tl_winograd_bw_w_products(const void *of, int at, int first, int count);
/* Kernels of input channel `at`, output channels first .. first + count - 1. */
void tl_winograd_bw_w_weights(const void *of, int at, int first, int count);
/* All groups and channels. */
void tl_winograd_bw_w_run(const tl_conv2d *a);
#endif
