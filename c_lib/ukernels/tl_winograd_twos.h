/* Winograd's convolutions with two rows of the transformed 4 x 4 at a time, the upper or the lower ones; internal to
 * c_lib/kernels. Both rows of the inputs are made of three rows of the image, and what both add to an output is stored
 * once: half of what a row at a time loads and stores, in twice its scratch.
 *
 * In tl_winograd u is [rows / 4][chans][8 elements][4 channels], v [panels][chans][8 elements][4 tiles], m of a core
 * [TL_TOGETHER fours of channels][8 elements][4 channels][4 tiles]; `row` is the first of the two. Tiles are whole,
 * with no more than one column outside of the image on either side; there are three summed channels at least, and a
 * block at most. */
#ifndef TL_WINOGRAD_TWOS_H
#define TL_WINOGRAD_TWOS_H
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */

enum { TL_EIGHT = 8 * 4, TL_TOGETHER = 2 };

/* Weights of output channel `at`, so many summed channels; inputs of panel `at`; products of panel `at`, fours of
 * output channels, and what becomes of them. */
void tl_winograd_twos_weights(const void *of, int at, int first, int count);
void tl_winograd_twos_inputs(const void *of, int at, int first, int count);
void tl_winograd_twos_products(const void *of, int at, int first, int count);

/* Outputs of panel `at` from m, channels first .. first + count - 1. */
void tl_winograd_twos_outputs(const tl_winograd *t, int at, int first, int count);

/* The same of panels of `tiles` tiles from `number` on, of which a row has no even number. */
void tl_winograd_apart_inputs(const tl_winograd *t, int number, int tiles, int chan, float *v, int count);
void tl_winograd_apart_outputs(const tl_winograd *t, int number, int tiles, int first, int count);

/* Products of so many fours of channels. */
void tl_winograd_twos_chains(const float *u, const float *v, float *m, int count, int terms);

void tl_winograd_twos_run(const tl_gather *g, const tl_conv2d *a, int turned);
void tl_winograd_twos_panels(const tl_gather *g, const tl_conv2d *a, int turned);
#endif
