/* A matrix of floats, of few rows with contiguous terms, times a vector of halves, split over the terms. */
#define TL_HALF_VECTOR
#include "tl_split_vector.h"

void tl_matmul_split_widened_f16(const tl_matmul *p)
{
    tl_split_vector(p, 1);
}
