/* Up to three taps of one row of a depthwise weight gradient, and their sums over a block of any outputs. */
#include "tl_strip_any.inc"
