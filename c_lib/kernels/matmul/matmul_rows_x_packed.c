/* Rows of contiguous terms where they lie; columns are packed. */
#include "tl_product.h"

void tl_matmul_rows_x_packed_f32(const tl_matmul *p)
{
    tl_product(p, TL_ROWS, TL_PACKED);
}
