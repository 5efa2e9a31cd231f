/* Gradient of maxima over windows of three neighbouring halves, one or two apart, their taps numbered in a byte. */
#define TL_HALVES
#include "tl_pool_max_three.inc"
