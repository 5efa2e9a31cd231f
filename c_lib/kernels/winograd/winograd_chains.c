/* Products of panels in whole chains. */
#include "tl_winograd_chains.h"

void tl_winograd_chains(const float *u, int u_step, const float *v, float *m, int count, int terms, int elements)
{
    for (; elements > 0; --elements, u += 4, v += 4, m += 16 * count)
        tl_chains(u, u_step, v, m, count, terms, 0);
}
