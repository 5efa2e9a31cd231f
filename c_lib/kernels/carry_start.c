/* Copies between L2 and the memory behind it: the beginning. */
#include "tl_carry.h"

void tl_carry_start(const tl_carry *a)
{
    if (tl_core_id())
        return;
    if (a->inward)
        tl_far_in(&a->jobs[a->job], a->near, a->far + a->offset, a->row_bytes, a->rows, a->pitch);
    else
        tl_far_out(&a->jobs[a->job], a->far + a->offset, a->near, a->row_bytes, a->rows, a->pitch);
}
