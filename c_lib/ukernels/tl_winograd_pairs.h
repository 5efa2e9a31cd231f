/* Convolutions 3 x 3 of stride 1 by Winograd's F(2x2, 3x3) (tl_winograd.h), forward and input gradient, of halves;
 * internal to c_lib/kernels.
 *
 * Two neighbouring channels are a pair: their transformed inputs and weights lie in a word, a last channel's without a
 * partner beside zeros. Inputs are halves and are added and subtracted as such; weights are transformed as floats and
 * rounded once. Products are made a row of the transformed 4 x 4 at a time, as of floats; what each row adds to the
 * outputs stays a float in scratch, so that they are rounded once. */
#ifndef TL_WINOGRAD_PAIRS_H
#define TL_WINOGRAD_PAIRS_H
#include "tl_element.h"
#include "tl_gather.h"
#include "tl_winograd_tiles.h"

/* Words of a pair, 4 elements of four tiles or of four channels, or all 16; floats of the products of 4 channels x 4
 * tiles, and of their outputs. */
enum { TL_WINOGRAD_PAIR = 4 * 4, TL_WINOGRAD_WHOLE = 4 * TL_WINOGRAD_PAIR, TL_WINOGRAD_UNIT = 4 * 4 * 4 };

/* What is in scratch at a time. Tiles of outputs are numbered row by row, image by image, and go in panels of four;
 * channels of the outputs go in fours; a unit is a panel of four channels. */
typedef struct {
    const tl_gather *g;
    int turned;         /* kernels are read from their last element to the first */
    int high, wide;     /* tiles of an image */
    int row;            /* of the transformed 4 x 4 */
    int group, channel; /* first channel of the outputs in u */
    int rows;           /* channels of the outputs, without those that fill up the last four */
    int panel, panels;  /* in v */
    int chan, pairs;    /* summed channels in v and u: the first one, and so many pairs */
    int first, last;    /* sums begin with these, or are complete with them */
    int words;          /* from a pair to the next one */
    int next_row;       /* words to the next row of the transformed 4 x 4, where all rows are there at once */
    tl_pair *u;         /* [rows / 4][pairs][4 elements of the row][4 channels] */
    tl_pair *v;         /* [panels][pairs][4 elements][4 tiles] */
    float *y;           /* [panels][rows / 4][2 rows of outputs][2 columns][4 channels][4 tiles] */
    float *m;           /* [4 or 16 elements][4 channels][4 tiles], of each core, or of each unit where sums go on */
    tl_half zeros[12];  /* outside of the image; constants lie in L2 */
} tl_winograd_pairs;

/* Weights of output channel `at`, pairs first .. first + count - 1; inputs of panel `at` and the same pairs; products
 * of panel `at` and fours of output channels, and what they add to the outputs. */
void tl_winograd_pairs_weights(const void *of, int at, int first, int count);
void tl_winograd_pairs_inputs(const void *of, int at, int first, int count);
void tl_winograd_pairs_products(const void *of, int at, int first, int count);

/* Adds a row of products to the outputs of a unit; the complete ones of panel `at`, four channels, go where they are to
 * be. */
void tl_winograd_pairs_add(int row, const float *m, float *y);
void tl_winograd_pairs_outputs(const tl_winograd_pairs *t, const float *y, int at, int four);

/* Inputs of a row that is told. */
void tl_winograd_pairs_row(const tl_winograd_pairs *t, int row, int at, int first, int count);

/* Where all rows are in scratch at once, u, v and m hold 16 elements: weights, inputs, products and what becomes of
 * them, four tiles side by side or not. */
void tl_winograd_whole_weights(const void *of, int at, int first, int count);
void tl_winograd_whole_inputs(const void *of, int at, int first, int count);
void tl_winograd_whole_products(const void *of, int at, int first, int count);

/* All groups and channels; with all rows at once. */
void tl_winograd_whole_run(const tl_gather *g, const tl_conv2d *a, int turned);
void tl_winograd_pairs_run(const tl_gather *g, const tl_conv2d *a, int turned);
#endif
