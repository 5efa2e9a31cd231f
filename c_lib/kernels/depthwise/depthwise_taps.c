/* Taps inside of an image. */
#include "tl_line.h"

/* The taps t with 0 <= at + t*step < extent, as a range. */
void tl_line_taps(int at, int step, int extent, int taps, int *first, int *last)
{
    int lo = 0, hi = taps;
    while (lo < hi && (unsigned)(at + lo * step) >= (unsigned)extent)
        ++lo;
    while (hi > lo && (unsigned)(at + (hi - 1) * step) >= (unsigned)extent)
        --hi;
    *first = lo, *last = hi;
}
