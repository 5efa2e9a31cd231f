/* Maxima over windows of neighbouring halves, their taps numbered in a byte. */
#define TL_HALVES
#include "tl_pool_max_rows.inc"
