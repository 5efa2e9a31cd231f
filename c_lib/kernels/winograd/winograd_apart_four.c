/* All 16 elements of the transformed inputs of four tiles, half by half: where there are PULP's instructions, of those
 * alone that do not lie in words. By its name it does not lie among what a round of these goes through. */
#define TL_HALVES
#include "tl_winograd_whole.h"

void tl_winograd_whole_four(const tl_four_rows *r, tl_pair *v, int count)
{
    const tl_half *p0 = r->p[0], *p1 = r->p[1], *p2 = r->p[2], *p3 = r->p[3];
    for (; count > 0; --count, v += TL_WINOGRAD_WHOLE) {
        const tl_half *q0 = p0 + r->next[0], *q1 = p1 + r->next[1], *q2 = p2 + r->next[2], *q3 = p3 + r->next[3];
        const tl_four_pairs a = r->left ? TL_COLUMN(0) : TL_OUTSIDE, b = TL_COLUMN(1);
        const tl_four_pairs c = TL_COLUMN(2), d = TL_COLUMN(3);
        tl_across(v, a, b, c, d);
        const tl_four_pairs e = TL_COLUMN(4), f = TL_COLUMN(5);
        tl_across(v + 1, c, d, e, f);
        const tl_four_pairs g = TL_COLUMN(6), h = TL_COLUMN(7);
        tl_across(v + 2, e, f, g, h);
        const tl_four_pairs i = TL_COLUMN(8), j = r->right ? TL_COLUMN(9) : TL_OUTSIDE;
        tl_across(v + 3, g, h, i, j);
        p0 = q0 + r->next[0], p1 = q1 + r->next[1], p2 = q2 + r->next[2], p3 = q3 + r->next[3];
    }
}
