/* Gradient of maxima over windows that lie side by side, their taps numbered in a byte. */
#include "tl_pool_max_tiled.inc"
