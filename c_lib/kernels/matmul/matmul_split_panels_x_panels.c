/* Rows that lie side by side times columns that do, both where they lie. Split over the terms. */
#include "tl_product.h"

void tl_matmul_split_panels_x_panels_f32(const tl_matmul *p)
{
    tl_product_split(p, TL_PANELS, TL_PANELS);
}
