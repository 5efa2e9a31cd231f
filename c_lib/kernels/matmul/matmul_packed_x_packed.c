/* Both operands are packed, however they lie. */
#include "tl_product.h"

void tl_matmul_packed_x_packed_f32(const tl_matmul *p)
{
    tl_product(p, TL_PACKED, TL_PACKED);
}
