/* Rows that lie side by side times columns that do, both where they lie. */
#include "tl_product.h"

void tl_matmul_panels_x_panels_f32(const tl_matmul *p)
{
    tl_product(p, TL_PANELS, TL_PANELS);
}
