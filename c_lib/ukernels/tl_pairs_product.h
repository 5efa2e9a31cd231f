/* Products of matrices of halves, behind the rows of products and of pointwise convolutions; internal to
 * c_lib/kernels. */
#ifndef TL_PAIRS_PRODUCT_H
#define TL_PAIRS_PRODUCT_H
#include "tl_matmul.h"

void tl_pairs_product(const tl_matmul *p);
#endif
