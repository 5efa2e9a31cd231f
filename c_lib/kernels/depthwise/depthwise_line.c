/* Four pixels of a row, with any taps. */
#include "tl_line_four.inc"
