/* The same of halves. */
#define REFERENCE_F16
#include "conv.c"
