/* Weights of an input gradient, packed by the team, of halves. */
#define TL_HALVES
#include "tl_conv_pack.inc"
