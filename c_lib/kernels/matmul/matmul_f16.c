/* Products of operands in half precision, however they lie. */
#include "tl_pairs_product.h"

void tl_matmul_f16(const tl_matmul *p)
{
    tl_pairs_product(p);
}
