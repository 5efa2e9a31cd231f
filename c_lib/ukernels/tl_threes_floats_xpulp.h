/* Four channels x three taps of a weight gradient by PULP's own instructions: a hardware loop over four or two neighbouring
 * outputs; internal to c_lib/kernels. A load stands behind two multiply-adds at most, as in tl_tile_xpulp.h. */
#ifndef TL_THREES_FLOATS_XPULP_H
#define TL_THREES_FLOATS_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
/* t0 .. s5: sums, channel by channel; s6 .. s9: an output of each; s10, s11, a7: inputs. */
#define TL_INPUT(to, at) "lw " to ", 4*" #at "(%[x])\n"
#define TL_FIRST_TWO TL_LOAD("s6", "%[y0]") TL_LOAD("s7", "%[y1]")
#define TL_OUTPUT_TERMS(p, q, r, one, two, first, second)                                                              \
    TL_MAC("t0", "s6", p) TL_MAC("t3", "s7", p) TL_LOAD("s8", "%[y2]") TL_MAC("t1", "s6", q) TL_MAC("t6", "s8", p)      \
    TL_LOAD("s9", "%[y3]") TL_MAC("t4", "s7", q) TL_MAC("s3", "s9", p) one TL_MAC("s1", "s8", q) TL_MAC("s4", "s9", q)  \
    two TL_MAC("t2", "s6", r) first TL_MAC("t5", "s7", r) second TL_MAC("s2", "s8", r) TL_MAC("s5", "s9", r)
#define TL_INNER(p, q, r, one, two) TL_OUTPUT_TERMS(p, q, r, one, two, TL_LOAD("s6", "%[y0]"), TL_LOAD("s7", "%[y1]"))
#define TL_FINAL(p, q, r) TL_OUTPUT_TERMS(p, q, r, , , , )
#define TL_THREE_INPUTS TL_INPUT("s10", 0) TL_INPUT("s11", 1) TL_INPUT("a7", 2)

#define TL_TERMS_OF_TWO                                                                                                \
    TL_FIRST_TWO TL_THREE_INPUTS TL_INNER("s10", "s11", "a7", TL_INPUT("s10", 3), ) TL_FINAL("s11", "a7", "s10")
#define TL_TERMS_OF_FOUR                                                                                               \
    TL_FIRST_TWO TL_THREE_INPUTS TL_INNER("s10", "s11", "a7", TL_INPUT("s10", 3), )                                    \
    TL_INNER("s11", "a7", "s10", TL_INPUT("s11", 4), ) TL_INNER("a7", "s10", "s11", TL_INPUT("a7", 5), )               \
    TL_FINAL("s10", "s11", "a7")
#define TL_TERMS_OF_TWO_S2                                                                                             \
    TL_FIRST_TWO TL_THREE_INPUTS TL_INNER("s10", "s11", "a7", TL_INPUT("s10", 4), TL_INPUT("s11", 3))                  \
    TL_FINAL("a7", "s11", "s10")
#define TL_TERMS_OF_FOUR_S2                                                                                            \
    TL_FIRST_TWO TL_THREE_INPUTS TL_INNER("s10", "s11", "a7", TL_INPUT("s10", 4), TL_INPUT("s11", 3))                  \
    TL_INNER("a7", "s11", "s10", TL_INPUT("a7", 6), TL_INPUT("s11", 5))                                                \
    TL_INNER("s10", "s11", "a7", TL_INPUT("s10", 8), TL_INPUT("s11", 7)) TL_FINAL("a7", "s11", "s10")

#define TL_TWELVE(what)                                                                                                \
    what("t0", "0") what("t1", "4") what("t2", "8") what("t3", "12") what("t4", "16") what("t5", "20")                 \
    what("t6", "24") what("s1", "28") what("s2", "32") what("s3", "36") what("s4", "40") what("s5", "44")
#define TL_NO_SUM(sum, at) "li " sum ", 0\n"
#define TL_PUT_SUM(sum, at) "sw " sum ", " at "(%[sums])\n"

/* A loop ends with a load, as Spike's extension of the tests wants it: of what lies there, while x goes on. */
#define TL_THREES(terms, bytes, halfwords)                                                                             \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_TWELVE(TL_NO_SUM) TL_LOOP("%[count]", halfwords)    \
                     terms TL_LOAD_BY(bytes, "s10", "%[x]") TL_TWELVE(TL_PUT_SUM) ".option pop\n"                      \
                     : [x] "+r"(x), [y0] "+r"(y0), [y1] "+r"(y1), [y2] "+r"(y2), [y3] "+r"(y3)                         \
                     : [count] "r"(count), [sums] "r"(sums)                                                            \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5", "s6", "s7",   \
                       "s8", "s9", "s10", "s11", "a7")
/* clang-format on */

/* sums[4][3] of `count` fours or twos (by, a literal) of outputs, at least one; x: what they meet, packed. step, a
 * literal: from one output's inputs to the next one's. */
static inline __attribute__((always_inline)) void tl_threes_xpulp(const float *x, const float *const *y, int count,
                                                                  float *sums, int by, int step)
{
    const float *y0 = y[0], *y1 = y[1], *y2 = y[2], *y3 = y[3];
    if (by == 4 && step == 1)
        TL_THREES(TL_TERMS_OF_FOUR, "24", "142");
    else if (by == 4)
        TL_THREES(TL_TERMS_OF_FOUR_S2, "36", "148");
    else if (step == 1)
        TL_THREES(TL_TERMS_OF_TWO, "16", "74");
    else
        TL_THREES(TL_TERMS_OF_TWO_S2, "20", "76");
}
#endif
#endif
