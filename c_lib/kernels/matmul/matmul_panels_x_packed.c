/* Rows that lie side by side, where they lie; columns are packed. */
#include "tl_product.h"

void tl_matmul_panels_x_packed_f32(const tl_matmul *p)
{
    tl_product(p, TL_PANELS, TL_PACKED);
}
