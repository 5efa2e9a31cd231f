/* Rows of any depthwise kernel, of halves. */
#define TL_HALVES
#include "tl_lines_any.inc"
