/* 3 x 3 taps of four neighbouring pixels, of halves. */
#define TL_HALVES
#include "tl_conv_near.inc"
