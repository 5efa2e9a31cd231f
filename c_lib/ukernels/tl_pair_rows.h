/* Two rows of halves as words of a pixel of each; internal to c_lib/kernels. */
#ifndef TL_PAIR_ROWS_H
#define TL_PAIR_ROWS_H
#include "tl_pair.h"
#include "tl_xpulp.h"

/* Returns where the words go on. */
static inline tl_pair *tl_pair_rows(tl_pair *dst, const tl_half *first, const tl_half *second, int count)
{
#ifdef TL_XF16AUXVEC
    const int twos = count / 2;
    if (twos > 0) {
        /* clang-format off */
        __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[twos]", "16")
            TL_LOAD_HALF("t0", "%[first]") TL_LOAD_HALF("t1", "%[second]") TL_LOAD_HALF("t2", "%[first]")
            TL_LOAD_HALF("t3", "%[second]") TL_PAIR_OF("t0", "t0", "t1") TL_PAIR_OF("t2", "t2", "t3")
            TL_STORE_ON("t0", "%[dst]") TL_STORE_ON("t2", "%[dst]") ".option pop\n"
            : [dst] "+r"(dst), [first] "+r"(first), [second] "+r"(second)
            : [twos] "r"(twos) : "memory", "t0", "t1", "t2", "t3");
        /* clang-format on */
        count -= 2 * twos;
    }
#endif
    for (; count > 0; --count)
        *dst++ = tl_pair_of(*first++, *second++);
    return dst;
}
#endif
