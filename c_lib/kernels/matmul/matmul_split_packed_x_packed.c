/* Both operands are packed, however they lie. Split over the terms. */
#include "tl_product.h"

void tl_matmul_split_packed_x_packed_f32(const tl_matmul *p)
{
    tl_product_split(p, TL_PACKED, TL_PACKED);
}
