/* The inputs that one column of a weight gradient meets, packed, of halves. */
#define TL_HALVES
#include "tl_conv_columns.inc"
