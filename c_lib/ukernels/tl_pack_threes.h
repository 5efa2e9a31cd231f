/* What pairs of neighbouring outputs meet by three neighbouring taps of a row of halves; internal to c_lib/kernels. */
#ifndef TL_PACK_THREES_H
#define TL_PACK_THREES_H
#include "tl_pair.h"
#include "tl_xpulp.h"

/* Three words a pair, one pair or more, all of whose pixels are there; outputs are `step` pixels apart, 1 or 2. Returns
 * where the words go on. */
static inline __attribute__((always_inline)) tl_pair *tl_pack_threes(tl_pair *dst, const tl_half *from, int step,
                                                                     int pairs)
{
#ifdef TL_XF16AUXVEC
    /* clang-format off */
#define TL_OPERANDS                                                                                                    \
    : [dst] "+r"(dst), [from] "+r"(from)                                                                               \
    : [pairs] "r"(pairs) : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6"
#define TL_NEXT(to) TL_LOAD_HALF(to, "%[from]")
#define TL_PUT(a, b, c) TL_STORE_ON(a, "%[dst]") TL_STORE_ON(b, "%[dst]") TL_STORE_ON(c, "%[dst]")
    if (step == 1) /* a pair's last word is the next one's first */
        __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_NEXT("t0") TL_NEXT("t1")
            TL_PAIR_OF("t2", "t0", "t1") TL_LOOP("%[pairs]", "18")
            TL_NEXT("t3") TL_NEXT("t4") "mv t5, t2\n" TL_PAIR_OF("t6", "t1", "t3") TL_PAIR_OF("t2", "t3", "t4")
            "mv t1, t4\n" TL_PUT("t5", "t6", "t2") ".option pop\n" TL_OPERANDS);
    else
        __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_NEXT("t0") TL_LOOP("%[pairs]", "22")
            TL_NEXT("t1") TL_NEXT("t2") TL_NEXT("t3") TL_NEXT("t4") TL_PAIR_OF("t5", "t0", "t2")
            TL_PAIR_OF("t6", "t1", "t3") TL_PAIR_OF("t2", "t2", "t4") "mv t0, t4\n" TL_PUT("t5", "t6", "t2")
            ".option pop\n" TL_OPERANDS);
#undef TL_OPERANDS
#undef TL_NEXT
#undef TL_PUT
    /* clang-format on */
#else
    for (; pairs > 0; --pairs, from += 2 * step)
        for (int tap = 0; tap < 3; ++tap)
            *dst++ = tl_pair_of(from[tap], from[tap + step]);
#endif
    return dst;
}
#endif
