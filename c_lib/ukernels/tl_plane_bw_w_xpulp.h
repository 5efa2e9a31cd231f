/* Sums of a kernel row over a block of outputs by PULP's own instructions; internal to c_lib/kernels. A hardware loop
 * takes two outputs at a time, whose pixels pass one by one: each meets the first output by a tap, the second by an
 * earlier one. */
#ifndef TL_PLANE_BW_W_XPULP_H
#define TL_PLANE_BW_W_XPULP_H
#include "tl_plane_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
#define TL_FIRST(sum, pixel) TL_MAC(sum, "s1", pixel)
#define TL_SECOND(sum, pixel) TL_MAC(sum, "s2", pixel)
#define TL_BOTH(first, second, pixel) TL_FIRST(first, pixel) TL_SECOND(second, pixel)
#define TL_PAIR_BEGIN TL_LOAD("s1", "%[k]") TL_PIXEL("s3", 0) TL_LOAD("s2", "%[k]") TL_PIXEL("s4", 1)

/* So many taps; of outputs two columns apart (S2). s3, s4 and s5 hold pixels in turn. */
#define TL_PAIR_OF_5                                                                                                   \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_BOTH("t1", "t0", "s4") TL_PIXEL("s3", 3)                   \
    TL_BOTH("t2", "t1", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t2", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t3", "s4") TL_SECOND("t4", "s5")
#define TL_PAIR_OF_7                                                                                                   \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_BOTH("t1", "t0", "s4") TL_PIXEL("s3", 3)                   \
    TL_BOTH("t2", "t1", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t2", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t3", "s4") TL_PIXEL("s3", 6) TL_BOTH("t5", "t4", "s5") TL_PIXEL("s4", 7)                            \
    TL_BOTH("t6", "t5", "s3") TL_SECOND("t6", "s4")
#define TL_PAIR_S2_OF_5                                                                                                \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_FIRST("t1", "s4") TL_PIXEL("s3", 3)                        \
    TL_BOTH("t2", "t0", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t1", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t2", "s4") TL_PIXEL("s3", 6) TL_SECOND("t3", "s5") TL_SECOND("t4", "s3")
#define TL_PAIR_S2_OF_7                                                                                                \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_FIRST("t1", "s4") TL_PIXEL("s3", 3)                        \
    TL_BOTH("t2", "t0", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t1", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t2", "s4") TL_PIXEL("s3", 6) TL_BOTH("t5", "t3", "s5") TL_PIXEL("s4", 7)                            \
    TL_BOTH("t6", "t4", "s3") TL_PIXEL("s5", 8) TL_SECOND("t5", "s4") TL_SECOND("t6", "s5")
#define TL_ONE_OF_5                                                                                                    \
    TL_LOAD("s1", "%[k]") TL_PIXEL("s3", 0) TL_PIXEL("s4", 1) TL_FIRST("t0", "s3") TL_PIXEL("s5", 2)                   \
    TL_FIRST("t1", "s4") TL_PIXEL("s3", 3) TL_FIRST("t2", "s5") TL_PIXEL("s4", 4) TL_FIRST("t3", "s3")                 \
    TL_FIRST("t4", "s4")
#define TL_ONE_OF_7                                                                                                    \
    TL_ONE_OF_5 TL_PIXEL("s5", 5) TL_PIXEL("s3", 6) TL_FIRST("t5", "s5") TL_FIRST("t6", "s3")

#define TL_OF_5(what) what("t0", "0") what("t1", "4") what("t2", "8") what("t3", "12") what("t4", "16")
#define TL_OF_7(what) TL_OF_5(what) what("t5", "20") what("t6", "24")
#define TL_FROM_NOTHING(sum, at) "li " sum ", 0\n"
#define TL_ONTO_WEIGHT(sum, at) "lw s3, " at "(%[k])\nfadd.s " sum ", s3, " sum "\nsw " sum ", " at "(%[k])\n"

/* A loop ends with a load, as Spike's extension of the tests wants it: of what lies there, while p goes on. */
#define TL_SUMS(each, pair, bytes, halfwords, one)                                                                     \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" each(TL_FROM_NOTHING)                                  \
                     "1:\nbeqz %[pairs], 2f\n" TL_LOOP("%[pairs]", halfwords) pair TL_LOAD_BY(bytes, "s1", "%[p]")     \
                     "2:\nbnez %[odd], 4f\n3:\nadd %[p], %[p], %[down]\nadd %[k], %[k], %[y_down]\n"                   \
                     "addi %[rows], %[rows], -1\nbnez %[rows], 1b\nj 5f\n4:\n" one "j 3b\n"                            \
                     "5:\nmv %[k], %[w]\n" each(TL_ONTO_WEIGHT) ".option pop\n"                                        \
                     : [p] "+r"(p), [k] "+r"(k), [rows] "+r"(rows)                                                     \
                     : [pairs] "r"(b->run >> 1), [odd] "r"(b->run & 1),                                                \
                       [down] "r"(4 * (b->down - step * (b->run & ~1))),                                               \
                       [y_down] "r"(4 * (b->y_down - b->run)), [w] "r"(b->w)                                           \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5")
/* clang-format on */

/* At least one row. Literals: taps, step. */
static inline __attribute__((always_inline)) void tl_plane_meet_xpulp(const tl_plane_block *b, int taps, int step)
{
    const float *p = b->in, *k = b->y;
    int rows = b->rows;
    if (taps == 5 && step == 1)
        TL_SUMS(TL_OF_5, TL_PAIR_OF_5, "8", "38", TL_ONE_OF_5);
    else if (taps == 5)
        TL_SUMS(TL_OF_5, TL_PAIR_S2_OF_5, "16", "40", TL_ONE_OF_5);
    else if (step == 1)
        TL_SUMS(TL_OF_7, TL_PAIR_OF_7, "8", "50", TL_ONE_OF_7);
    else
        TL_SUMS(TL_OF_7, TL_PAIR_S2_OF_7, "16", "52", TL_ONE_OF_7);
}
#endif
#endif
