/* How Winograd's convolutions share out their work, and which rows of an image they read. */
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_winograd_tiles.h"

/* One function for all kinds of work, so that the cores find its code at hand. */
void tl_winograd_share(const void *t, int pieces, int each, tl_winograd_work work)
{
    int lo, hi, at, first;
    tl_split(pieces * each, 1, &lo, &hi);
    at = lo / each, first = lo - at * each;
    for (int left = hi - lo; left > 0; ++at, first = 0) {
        const int count = tl_min(each - first, left);
        work(t, at, first, count);
        left -= count;
    }
}

void tl_winograd_rows(tl_two_rows *of, const float *in, int y, int row, int extent, int pitch)
{
    const int first = y + (0x1210 >> 4 * row & 3), second = y + (0x3122 >> 4 * row & 3), step = of->p_step;
    of->sign = row == 1 ? 1.0f : -1.0f;
    of->q = of->p, of->p_step = of->q_step = 0;
    if ((unsigned)first < (unsigned)extent)
        of->p = in + first * pitch, of->p_step = step;
    if ((unsigned)second < (unsigned)extent)
        of->q = in + second * pitch, of->q_step = step;
}
