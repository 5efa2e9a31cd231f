/* Forward convolution of halves by one tap, whose terms are one block and whose weights the team packs at once. */
#include "tl_conv_products.h"
#include "tl_pairs_product.h"

void tl_conv2d_fw_pointwise_whole_f16(const tl_conv2d *a)
{
    tl_forward_products(a, tl_pairs_whole);
}
