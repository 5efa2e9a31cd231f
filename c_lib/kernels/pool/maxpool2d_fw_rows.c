/* Maxima over windows of neighbouring taps, numbered in a byte. */
#include "tl_pool_max_rows.inc"
