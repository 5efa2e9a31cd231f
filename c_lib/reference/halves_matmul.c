/* The same of halves. */
#define REFERENCE_F16
#include "matmul.c"
