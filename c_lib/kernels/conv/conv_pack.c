/* Weights of an input gradient, packed by the team. */
#include "tl_conv_pack.inc"
