/* Weight gradient of halves by one tap. */
#include "tl_conv_products.h"
#include "tl_pairs_product.h"

void tl_conv2d_bw_w_pointwise_f16(const tl_conv2d *a)
{
    tl_weight_products(a, tl_pairs_product);
}
