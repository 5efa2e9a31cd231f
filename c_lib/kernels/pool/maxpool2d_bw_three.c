/* Gradient of maxima over windows of three neighbouring columns, one or two apart, their taps numbered in a byte. */
#include "tl_pool_max_three.inc"
