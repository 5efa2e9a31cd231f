/* Convolutions 3 x 3 of stride 1 by Winograd's F(2x2, 3x3), forward and input gradient; internal to c_lib/kernels.
 *
 *   Y = A' [ (G w G') . (B' d B) ] A      with Y 2 x 2 outputs, d the 4 x 4 inputs behind them, . element by element
 *
 *   B' = 1  0 -1  0     G = 1  0  0      A' = 1  h  h  0     h = 1/2
 *        0  1  1  0         1  1  1           0  h -h -1
 *        0 -1  1  0         1 -1  1
 *        0  1  0 -1         0  0  1
 *
 * 16 products of channels x tiles, one for each element of the transformed 4 x 4. They are made a row of these at a
 * time, which takes a quarter of the scratch: the inputs and the weights of a row are transformed (`v`, `u`),
 * multiplied (`m`), and the row's share is added to the outputs. The halves are powers of two: where they stand is no
 * matter of rounding. */
#ifndef TL_WINOGRAD_H
#define TL_WINOGRAD_H
#include "tl_gather.h" /* first: it sets how the whole file is compiled */
#include "tl_winograd_tiles.h"

/* What is in scratch at a time. Tiles of outputs are numbered row by row, image by image, and go in panels of four;
 * channels of the outputs go in fours. */
typedef struct {
    const tl_gather *g;
    int turned;         /* kernels are read from their last element to the first */
    int high, wide;     /* tiles of an image */
    int row;            /* of the transformed 4 x 4 */
    int group, channel; /* first channel of the outputs in u */
    int rows;           /* channels of the outputs, without those that fill up the last four */
    int panel, panels;  /* in v */
    int chan, chans;    /* summed channels in v and u */
    float *u;           /* [rows / 4][chans][4 elements of the row][4 channels] */
    float *v;           /* [panels][chans][4 elements][4 tiles] */
    float *m;           /* [4 elements][panels][rows][4 tiles] */
    float *chain;       /* like m: sums that go on */
    float zeros[10];    /* outside of the image; constants lie in L2 */
} tl_winograd;

/* Weights of output channel `at`, summed channels first .. first + count - 1; inputs of panel `at` and the same
 * channels; products of element and panel `at`, fours of output channels; outputs of panel `at`, output channels. */
void tl_winograd_weights(const void *of, int at, int first, int count);
void tl_winograd_inputs(const void *of, int at, int first, int count);
void tl_winograd_products(const void *of, int at, int first, int count);
void tl_winograd_outputs(const void *of, int at, int first, int count);

/* Products of one unit: sums of several blocks, or of a part of one. */
void tl_winograd_blocks(const tl_winograd *t, const float *u, const float *v, int unit);

static inline tl_winograd tl_winograd_of(const tl_gather *g, int turned)
{
    return (tl_winograd){.g = g, .turned = turned, .high = (g->y.count + 1) / 2, .wide = (g->x.count + 1) / 2};
}

/* All groups and channels: every kind of work shared out, or panels for each core. The latter take all summed channels
 * at a time, a block at most, and panels in scratch for all cores. */
void tl_winograd_run(const tl_gather *g, const tl_conv2d *a, int turned);
void tl_winograd_panels(const tl_gather *g, const tl_conv2d *a, int turned);
#endif
