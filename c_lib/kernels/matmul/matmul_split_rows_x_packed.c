/* Rows of contiguous terms where they lie; columns are packed. Split over the terms. */
#include "tl_product.h"

void tl_matmul_split_rows_x_packed_f32(const tl_matmul *p)
{
    tl_product_split(p, TL_ROWS, TL_PACKED);
}
