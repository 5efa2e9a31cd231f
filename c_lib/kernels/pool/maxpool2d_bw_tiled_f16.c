/* Gradient of maxima over windows of halves that lie side by side, their taps numbered in a byte. */
#define TL_HALVES
#include "tl_pool_max_tiled.inc"
