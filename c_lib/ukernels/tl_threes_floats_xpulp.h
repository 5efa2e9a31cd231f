/* Sums of a tile of 4 channels x 3 taps by PULP's own instructions: loads that advance, in a hardware loop over four or
 * two outputs; internal to c_lib/kernels. A group ends with the load of the next one's first input, which every row
 * has. */
#ifndef TL_THREES_FLOATS_XPULP_H
#define TL_THREES_FLOATS_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
#define TL_Y(i, to) TL_LOAD(to, "%[y" #i "]")
#define TL_X(to) TL_LOAD(to, "%[x]")
/* A term whose inputs are p, q and r. Rows of sums: t0 t1 t2, t3 t4 t5, t6 s2 s3, s4 s5 s6; gradients s7 s8 s9 s10.
 * `r_in` and `p_in`, `q_in` load inputs: r late for this term, the others for the next ones; `y0` and `y1` its
 * gradients. */
#define TL_TERM_OF_THREE_X(p, q, r, r_in, p_in, q_in, y0, y1)                                                          \
    TL_MAC("t0", "s7", p) TL_Y(2, "s9") TL_MAC("t3", "s8", p) TL_Y(3, "s10")                                           \
    TL_MAC("t1", "s7", q) r_in TL_MAC("t4", "s8", q) TL_MAC("t6", "s9", p) TL_MAC("s4", "s10", p) p_in                 \
    TL_MAC("s2", "s9", q) TL_MAC("s5", "s10", q) q_in TL_MAC("t2", "s7", r) y0 TL_MAC("t5", "s8", r) y1                \
    TL_MAC("s3", "s9", r) TL_MAC("s6", "s10", r)
#define TL_NEXT_Y TL_Y(0, "s7"), TL_Y(1, "s8")
#define TL_X0 "s11"
#define TL_X1 "a4"
#define TL_X2 "a5"
#define TL_BEGIN_OF_THREE TL_Y(0, "s7") TL_X(TL_X1) TL_Y(1, "s8")

#define TL_FOUR_OF_THREE                                                                                               \
    TL_BEGIN_OF_THREE                                                                                                  \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X0, TL_X1, TL_X2, TL_X(TL_X2), TL_X(TL_X0), , TL_NEXT_Y)                            \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X1, TL_X2, TL_X0, , TL_X(TL_X1), , TL_NEXT_Y)                                       \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X2, TL_X0, TL_X1, , TL_LOAD_BY("-4", TL_X2, "%[x]"), , TL_NEXT_Y)                   \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X0, TL_X1, TL_X2, , , , , ) TL_X(TL_X0)
#define TL_TWO_OF_THREE                                                                                                \
    TL_BEGIN_OF_THREE                                                                                                  \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X0, TL_X1, TL_X2, TL_X(TL_X2), TL_LOAD_BY("-4", TL_X0, "%[x]"), , TL_NEXT_Y)        \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X1, TL_X2, TL_X0, , , , , ) TL_X(TL_X0)

/* Every other input: the last one of a group, which stands where the pointer does, is loaded once more. */
#define TL_LAST_TWO TL_X(TL_X1) TL_LOAD_BY("0", TL_X0, "%[x]")
#define TL_FOUR_OF_THREE_S2                                                                                            \
    TL_BEGIN_OF_THREE                                                                                                  \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X0, TL_X1, TL_X2, TL_X(TL_X2), , TL_X(TL_X1) TL_X(TL_X0), TL_NEXT_Y)                \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X2, TL_X1, TL_X0, , , TL_X(TL_X1) TL_X(TL_X2), TL_NEXT_Y)                           \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X0, TL_X1, TL_X2, , , TL_LAST_TWO, TL_NEXT_Y)                                       \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X2, TL_X1, TL_X0, , , , , ) TL_X(TL_X0)
#define TL_TWO_OF_THREE_S2                                                                                             \
    TL_BEGIN_OF_THREE                                                                                                  \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X0, TL_X1, TL_X2, TL_X(TL_X2), , TL_LAST_TWO, TL_NEXT_Y)                            \
    TL_EACH(TL_TERM_OF_THREE_X, TL_X2, TL_X1, TL_X0, , , , , ) TL_X(TL_X0)

#define TL_THREE_ZEROS                                                                                                 \
    "li t0, 0\nli t1, 0\nli t2, 0\nli t3, 0\nli t4, 0\nli t5, 0\nli t6, 0\nli s2, 0\nli s3, 0\nli s4, 0\nli s5, 0\n"   \
    "li s6, 0\n"
#define TL_THREE_SUMS_TO                                                                                               \
    "lw a4, %[sums]\nsw t0, 0(a4)\nsw t1, 4(a4)\nsw t2, 8(a4)\nsw t3, 12(a4)\nsw t4, 16(a4)\nsw t5, 20(a4)\n"          \
    "sw t6, 24(a4)\nsw s2, 28(a4)\nsw s3, 32(a4)\nsw s4, 36(a4)\nsw s5, 40(a4)\nsw s6, 44(a4)\n"

/* All lines; length, of a group in halfwords. */
#define TL_LINES_OF_THREE(group, length)                                                                               \
    __asm__ volatile(TL_THREE_ZEROS "1:\n.balign 4\n.option push\n.option norvc\n" TL_X(TL_X0)                         \
                     TL_LOOP("%[groups]", length) group ".option pop\n"                                                \
                     "lw a4, %[next]\nadd %[x], %[x], a4\naddi %[lines], %[lines], -1\nbnez %[lines], 1b\n"            \
                     TL_THREE_SUMS_TO                                                                                  \
                     : [x] "+&r"(x), [y0] "+&r"(y0), [y1] "+&r"(y1), [y2] "+&r"(y2), [y3] "+&r"(y3),                   \
                       [lines] "+&r"(lines)                                                                            \
                     : [groups] "r"(groups), [next] "m"(next), [sums] "m"(kept)                                        \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8",   \
                       "s9", "s10", "s11", "a4", "a5")
/* clang-format on */
#endif
#endif
