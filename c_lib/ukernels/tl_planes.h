/* 3 x 3 kernels of halves without packed pixels: the inputs lie in planes, a word for each pixel of two neighbouring
 * channels, and four neighbouring outputs of four channels are made at a time; internal to c_lib/kernels. */
#ifndef TL_PLANES_H
#define TL_PLANES_H
#include "tl_gather.h"
#include "tl_pair.h"
#include "tl_xpulp.h"

/* 4 channels x 4 neighbouring outputs, and the planes from their first input on. */
typedef struct {
    const tl_pair *weights; /* [pairs][9][4] */
    const tl_pair *in;
    int pairs;      /* of channels, at least one */
    int row, plane; /* words to the next row, to the next plane */
    float *out;
    int out_m; /* to the next channel */
} tl_planes_tile;

/* Goes on with the sums that are in `out`. Neighbouring outputs read inputs 1 or 2 apart. */
void tl_planes_tile_1(const tl_planes_tile *t);
void tl_planes_tile_2(const tl_planes_tile *t);

/* One class of outputs. packed_rows as in tl_conv_pairs. */
void tl_conv_planes(const tl_gather *g, int packed_rows);
#endif
