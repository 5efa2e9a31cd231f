/* A matrix of few rows with contiguous terms times a vector, split over the terms. */
#include "tl_split_vector.h"

void tl_matmul_split_vector_f32(const tl_matmul *p)
{
    tl_split_vector(p, 1);
}
