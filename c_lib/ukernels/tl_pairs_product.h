/* Products of matrices of halves, behind the rows of products and of pointwise convolutions; internal to
 * c_lib/kernels. */
#ifndef TL_PAIRS_PRODUCT_H
#define TL_PAIRS_PRODUCT_H
#include "tl_matmul.h"

void tl_pairs_product(const tl_matmul *p);

/* The same where terms are one block and all rows are packed at once; no barrier at the end. */
void tl_pairs_whole(const tl_matmul *p);
#endif
