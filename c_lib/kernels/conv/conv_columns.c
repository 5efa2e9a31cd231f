/* The inputs that one column of a weight gradient meets, packed. */
#include "tl_conv_columns.inc"
