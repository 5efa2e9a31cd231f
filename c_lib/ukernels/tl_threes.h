/* Weight gradients of halves by kernel rows of three taps; internal to c_lib/kernels. */
#ifndef TL_THREES_H
#define TL_THREES_H
#include "tl_pair.h"
#include "tl_xpulp.h"

/* Tiles of four channels x a kernel row, one after the other: w[i*w_m + j] and sums over pairs of outputs, or these
 * alone. */
typedef struct {
    const tl_pair *gradients; /* [tiles][pairs][4] */
    const tl_pair *inputs;    /* [pairs][3], which three taps meet */
    int tiles, pairs;         /* at least one each */
    int afresh;               /* 1: w has nothing yet */
    int w_m;
    float *w;
} tl_threes;

void tl_tile_threes(const tl_threes *t);
#endif
