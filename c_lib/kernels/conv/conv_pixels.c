/* Where the pixels of a panel read, and their inputs packed term by term. */
#include "tl_conv_pixels.inc"
