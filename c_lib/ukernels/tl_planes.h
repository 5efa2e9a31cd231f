/* Convolutions of halves without packed pixels: the inputs lie in planes, a word for each pixel of two neighbouring
 * channels, and four outputs of a row, of four channels, are made at a time; internal to c_lib/kernels. */
#ifndef TL_PLANES_H
#define TL_PLANES_H
#include "tl_gather.h"
#include "tl_pair.h"
#include "tl_xpulp.h"

/* 4 channels x 4 outputs, and the planes from their first input on. */
typedef struct {
    const tl_pair *weights; /* [pairs][rows][taps of a row][4] */
    const tl_pair *in;
    int pairs, rows;    /* of channels, of the kernel; at least one */
    int row, plane;     /* words to the next row, to the next plane */
    const float *start; /* what the sums of each channel begin with; NULL: floats that are in `out` */
    void *out;          /* floats or, if `halves`, what they are rounded to */
    int out_m, halves;  /* elements to the next channel */
} tl_planes_tile;

/* Kernel rows of so many taps, outputs whose inputs are neighbours or 2 apart, and
 * which are neighbours or 2 apart themselves. */
void tl_planes_3(const tl_planes_tile *t);
void tl_planes_3_from_twos(const tl_planes_tile *t);
void tl_planes_2_to_twos(const tl_planes_tile *t);
void tl_planes_1_to_twos(const tl_planes_tile *t);

/* Planes that all classes of outputs share, from row y and column x of the image on; only the first class packs them.
 */
typedef struct {
    int y, x, rows, pitch, packed;
} tl_planes_frame;

/* One class of outputs. packed_rows as in tl_conv_pairs; a frame: of one image and group, or NULL. */
void tl_conv_planes(const tl_gather *g, int packed_rows, tl_planes_frame *frame);
#endif
