/* Products of operands in half precision whose terms are one block and whose rows the team packs at once. */
#include "tl_pairs_product.h"

void tl_matmul_whole_f16(const tl_matmul *p)
{
    tl_pairs_whole(p);
}
