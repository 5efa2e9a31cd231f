/* Rows of contiguous terms times columns that lie side by side, both where they lie. Split over the terms. */
#include "tl_product.h"

void tl_matmul_split_rows_x_panels_f32(const tl_matmul *p)
{
    tl_product_split(p, TL_ROWS, TL_PANELS);
}
