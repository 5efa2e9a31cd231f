/* Convolutions of halves without packed pixels: the inputs lie in planes, a word for each pixel of two neighbouring
 * channels, and four outputs of a row, of four channels, are made at a time; internal to c_lib/kernels. */
#ifndef TL_PLANES_H
#define TL_PLANES_H
#include "tl_gather.h"
#include "tl_pair.h"
#include "tl_xpulp.h"

/* Tiles of 4 channels x 4 outputs, channel by channel, and the planes from their first input on. Up to two words behind
 * the weights are read, and the beginning of the row behind the last one. */
typedef struct {
    const tl_pair *weights; /* [tiles][pairs][rows][taps of a row][4] */
    const tl_pair *in;
    int tiles, pairs, rows; /* pairs of channels; rows of the kernel; at least one each */
    int row, plane;         /* words to the next row, to the next plane */
    const float *start;     /* what the sums of each channel begin with; NULL: floats that are in `out` */
    int alike;              /* the first four of these, for all tiles */
    void *out;              /* floats or, if `halves`, what they are rounded to; 2: halves at even places, neighbours */
    int out_m, halves;      /* elements to the next channel */
} tl_planes_tile;

/* Kernel rows of so many taps, outputs whose inputs are neighbours or 2 apart, and
 * which are neighbours or 2 apart themselves. */
void tl_planes_3(const tl_planes_tile *t);
void tl_planes_3_from_twos(const tl_planes_tile *t);
void tl_planes_2_to_twos(const tl_planes_tile *t);
void tl_planes_1_to_twos(const tl_planes_tile *t);

enum { TL_PLANES_WORDS = 3264, TL_PLANES_WEIGHTS = 2304 }; /* of all planes and of all weights at a time */

/* What is done at a time: of a group and an image, some pairs of channels and rows of outputs, and channels of
 * outputs. */
typedef struct {
    int group, n, pair, pairs, y, rows, channel, tiles;
    int panels, pitch, plane; /* fours of outputs in a row; words of a row, of a plane */
    int top, left;            /* row and column of the image that the planes begin with */
    int taps, size;           /* of the kernel; words of a tile's weights */
    tl_pair *planes, *weights;
} tl_planes_part;

/* This core's share of the planes, of the weights, of the tiles. */
void tl_planes_pack(const tl_gather *g, const tl_planes_part *p);
void tl_planes_weights(const tl_gather *g, const tl_planes_part *p);
void tl_planes_share(const tl_gather *g, const tl_planes_part *p);

/* One class of outputs. packed_rows as in tl_conv_pairs. */
void tl_conv_planes(const tl_gather *g, int packed_rows);
#endif
