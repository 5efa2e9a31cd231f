/* Where the pixels of a panel read, and their inputs packed term by term, of halves. */
#define TL_HALVES
#include "tl_conv_pixels.inc"
