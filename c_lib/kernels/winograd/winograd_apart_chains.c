/* Products of panels in chains that go on. */
#include "tl_winograd_chains.h"

void tl_winograd_chains_resumed(const float *u, int u_step, const float *v, float *m, int count, int terms)
{
    tl_chains(u, u_step, v, m, count, terms, 1);
}
