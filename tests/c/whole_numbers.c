/* Every rule of tl_loop.h on pairs of whole numbers from standard input, in the order of tests/unit/test_whole.py. */
#include "tl_loop.h"
#include <stdio.h>

int main(void)
{
    for (int a, b; scanf("%d %d", &a, &b) == 2;) {
        const int by = b ? b : 1;
        printf("%d %d %d %d %d %d %d ", tl_addi(a, b), tl_subi(a, b), tl_muli(a, b), tl_negi(a), tl_absi(a),
               tl_lefti(a, b), tl_righti(a, b));
        printf("%d %d %d %d\n", tl_dividei(a, by), tl_resti(a, by), tl_floordivi(a, by), tl_remainderi(a, by));
    }
    return 0;
}
