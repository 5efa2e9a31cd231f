/* Products of two rows of the transformed 4 x 4, channels x tiles for each of their eight elements. */
#include "tl_winograd_twos_xpulp.h"

void tl_winograd_twos_chains(const float *u, const float *v, float *m, int count, int terms)
{
    for (; count > 0; --count, u += TL_EIGHT * terms) {
#ifdef TL_XPULP_TILES
        m = tl_xpulp_eight(u, v, m, terms);
#else
        enum { a_k = TL_EIGHT, b_k = TL_EIGHT };
        for (int element = 0; element < TL_EIGHT; element += 4, m += 16) {
            const float *a = u + element, *b = v + element;
            TL_EACH_ROW(TL_ZERO_ROW)
            TL_TERMS_OF_PANEL(terms)
            TL_EACH_ROW(TL_KEEP)
        }
#endif
    }
}
