/* All 16 elements of the transformed inputs of four tiles, half by half: where there are PULP's instructions, of those
 * alone that do not lie in words. By its name it does not lie among what a round of these goes through. */
#define TL_HALVES
#include "tl_winograd_whole.h"

void tl_winograd_whole_four(const tl_four_rows *r, tl_pair *v, int count)
{
    tl_whole_tiles(r, v, count, 4);
}
