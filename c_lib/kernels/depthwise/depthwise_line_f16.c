/* Four pixels of a row, with any taps, of halves. */
#define TL_HALVES
#include "tl_line_four.inc"
