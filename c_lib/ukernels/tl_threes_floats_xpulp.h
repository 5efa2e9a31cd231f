/* Tiles of 4 channels x 3 taps by PULP's own instructions: loads that advance, in a hardware loop over four or two
 * outputs, in another one over lines; internal to c_lib/kernels. A group ends with the load of the next one's first
 * input, which every row has. */
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
#define TL_THREE_GET(row) "lw s7, 0(" row ")\nlw s8, 4(" row ")\nlw s9, 8(" row ")\n"
/* Three sums are added to the weights at `row`, which are in s7 to s9; on the way those at `next` come. */
#define TL_THREE_ADD(s0, s1, s2, row, next)                                                                            \
    "fadd.s " s0 ", s7, " s0 "\nlw s7, 0(" next ")\nfadd.s " s1 ", s8, " s1 "\nlw s8, 4(" next ")\n"                   \
    "fadd.s " s2 ", s9, " s2 "\nlw s9, 8(" next ")\nsw " s0 ", 0(" row ")\nsw " s1 ", 4(" row ")\n"                    \
    "sw " s2 ", 8(" row ")\nadd " row ", " next ", s11\n"
#define TL_THREE_LAST(s0, s1, s2, row)                                                                                 \
    "fadd.s " s0 ", s7, " s0 "\nfadd.s " s1 ", s8, " s1 "\nfadd.s " s2 ", s9, " s2 "\nsw " s0 ", 0(" row ")\n"         \
    "sw " s1 ", 4(" row ")\nsw " s2 ", 8(" row ")\n"
/* a4 ends below the tile. */
#define TL_THREE_ADD_ALL                                                                                               \
    "lw s11, %[w_m]\n" TL_THREE_GET("%[w]") "add s10, %[w], s11\nmv a4, %[w]\n"                                       \
    TL_THREE_ADD("t0", "t1", "t2", "a4", "s10") TL_THREE_ADD("t3", "t4", "t5", "s10", "a4")                            \
    TL_THREE_ADD("t6", "s2", "s3", "a4", "s10") TL_THREE_LAST("s4", "s5", "s6", "s10")

/* Tiles below each other, block by block: a group has `length` halfwords, all of a line `whole`. */
#define TL_TILES_OF_THREE(group, length, whole)                                                                        \
    __asm__ volatile("0:\nlw %[x], %[met]\nlw a5, %[lines]\n"                                                          \
                     "1:\nlw a4, %[most]\n" TL_THREE_ZEROS "sub a5, a5, a4\nbgez a5, 2f\nadd a4, a4, a5\n"             \
                     "2:\nsw a5, %[left]\n.balign 4\n.option push\n.option norvc\n" TL_OUTER_LOOP("a4", whole)         \
                     TL_X(TL_X0) TL_LOOP("%[groups]", length) group "add %[x], %[x], %[next]\n.option pop\n"           \
                     TL_THREE_ADD_ALL "lw a5, %[left]\nbgtz a5, 1b\n"                                                  \
                     "lw a5, %[tiles]\nlw s7, %[y_next]\nmv %[w], a4\naddi a5, a5, -1\nsw a5, %[tiles]\n"              \
                     "add %[y0], %[y0], s7\nadd %[y1], %[y1], s7\nadd %[y2], %[y2], s7\nadd %[y3], %[y3], s7\n"        \
                     "bnez a5, 0b\n"                                                                                   \
                     : [x] "=&r"(x), [y0] "+&r"(y0), [y1] "+&r"(y1), [y2] "+&r"(y2), [y3] "+&r"(y3), [w] "+&r"(w),     \
                       [tiles] "+m"(tiles), [left] "=m"(left)                                                          \
                     : [groups] "r"(groups), [next] "r"(next), [met] "m"(met), [lines] "m"(lines), [most] "m"(most),   \
                       [y_next] "m"(y_next), [w_m] "m"(w_bytes)                                                        \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8",   \
                       "s9", "s10", "s11", "a4", "a5")
/* clang-format on */
#endif
#endif
