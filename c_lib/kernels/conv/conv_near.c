/* 3 x 3 taps of four neighbouring pixels. */
#include "tl_conv_near.inc"
