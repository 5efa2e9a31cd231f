/* Weight gradients of halves by kernel rows of three taps; internal to c_lib/kernels. */
#ifndef TL_THREES_H
#define TL_THREES_H
#include "tl_pair.h"
#include "tl_xpulp.h"

/* Four channels x a kernel row: w[i*w_m + j] = from[i*from_m + j], and sums over pairs of outputs. */
typedef struct {
    const tl_pair *gradients; /* [pairs][4] */
    const tl_pair *inputs;    /* [pairs][3], which three taps meet */
    int pairs;                /* at least one */
    const float *from;
    float *w;
    int from_m, w_m;
} tl_threes;

void tl_tile_threes(const tl_threes *t);
#endif
