/* A matrix of few rows times a vector, split over the terms, however they lie. */
#include "tl_split_vector.h"

void tl_matmul_split_vector_any_f32(const tl_matmul *p)
{
    tl_split_vector(p, 0);
}
