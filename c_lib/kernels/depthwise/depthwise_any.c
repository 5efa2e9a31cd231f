/* Rows of any depthwise kernel. */
#include "tl_lines_any.inc"
