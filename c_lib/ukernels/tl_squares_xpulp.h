/* Four squares of 2 x 2 outputs of an input gradient by PULP's own instructions: a hardware loop of 20 loads that
 * advance and 36 multiply-adds, and sums that stay in registers from block to block; internal to c_lib/kernels. */
#ifndef TL_SQUARES_XPULP_H
#define TL_SQUARES_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
/* The sums of four squares: of outputs with one tap of a kernel, with two of a row, two of a column, and four. */
#define TL_ONE TL_ROW0
#define TL_ACROSS TL_ROW1
#define TL_DOWN TL_ROW2
#define TL_ALL_TAPS TL_ROW3
/* A weight with four elements of dL/dy that are in registers; `load` stands behind the second one. */
#define TL_TAP(what, ...) what(__VA_ARGS__)
#define TL_WITH(load, w, y0, y1, y2, y3, s0, s1, s2, s3)                                                               \
    TL_MAC(s0, w, y0) TL_MAC(s1, w, y1) load TL_MAC(s2, w, y2) TL_MAC(s3, w, y3)
/* The first one last, which was loaded last. */
#define TL_WITH_LATE(load, w, y0, y1, y2, y3, s0, s1, s2, s3)                                                          \
    TL_MAC(s1, w, y1) TL_MAC(s2, w, y2) load TL_MAC(s3, w, y3) TL_MAC(s0, w, y0)
/* ... of which the last two are loaded on the way, then the next weight and the element before the first one. */
#define TL_WITH_NEW(y3_load, y4_load, w_load, y0_load, w, y0, y1, y2, y3, s0, s1, s2, s3)                              \
    TL_MAC(s0, w, y0) y3_load TL_MAC(s1, w, y1) y4_load TL_MAC(s2, w, y2) w_load TL_MAC(s3, w, y3) y0_load
#define TL_FIRST_Y "a6", "a7", "ra", "s0"
#define TL_NEXT_FOUR_Y "a7", "ra", "s0", "s1"
#define TL_DY(by, to) TL_LOAD_BY(by, to, "%[y]")
#define TL_TAPS(to) TL_LOAD(to, "%[at]")
#define TL_NEW_ROW TL_DY("4", "s0"), TL_DY("-16", "s1")

/* One channel: its elements of dL/dy in the order 1 2 3 4 0 of the lower row, then of the upper one, whose last is
 * loaded once more, to go on: a hardware loop ends with such a load. */
#define TL_SQUARES_TERM                                                                                                \
    TL_TAPS("a4") TL_DY("4", "a7") TL_DY("4", "ra")                                                                    \
    TL_TAP(TL_WITH_NEW, TL_NEW_ROW, TL_TAPS("a5"), TL_DY("24", "a6"), "a4", TL_NEXT_FOUR_Y, TL_ALL_TAPS)               \
    TL_TAP(TL_WITH_LATE, TL_TAPS("a4"), "a5", TL_FIRST_Y, TL_DOWN) TL_TAPS("a5")                                       \
    TL_TAP(TL_WITH, TL_DY("4", "a7"), "a4", TL_FIRST_Y, TL_ALL_TAPS) TL_DY("4", "ra")                                  \
    TL_TAP(TL_WITH_NEW, TL_NEW_ROW, TL_TAPS("a4"), TL_DY("0", "a6"), "a5", TL_NEXT_FOUR_Y, TL_ACROSS)                  \
    TL_TAP(TL_WITH_LATE, TL_TAPS("a5"), "a4", TL_FIRST_Y, TL_ONE)                                                      \
    TL_TAP(TL_WITH, TL_TAPS("a4"), "a5", TL_FIRST_Y, TL_ACROSS)                                                        \
    TL_TAP(TL_WITH, TL_TAPS("a5"), "a4", TL_NEXT_FOUR_Y, TL_ALL_TAPS)                                                  \
    TL_TAP(TL_WITH, TL_LOAD_STEP("a4", "%[at]", "%[step]"), "a5", TL_FIRST_Y, TL_DOWN)                                 \
    TL_TAP(TL_WITH, , "a4", TL_FIRST_Y, TL_ALL_TAPS) TL_DY("24", "a6")

/* Adds four sums to every other element of the row that a5 points at, from so many bytes on; they begin anew. */
#define TL_ADD_EVERY_OTHER(o0, o1, o2, o3, s0, s1, s2, s3)                                                             \
    "lw a4, " o0 "(a5)\nlw a6, " o1 "(a5)\nlw a7, " o2 "(a5)\nlw ra, " o3 "(a5)\n"                                     \
    "fadd.s a4, a4, " s0 "\nfadd.s a6, a6, " s1 "\nfadd.s a7, a7, " s2 "\nfadd.s ra, ra, " s3 "\n"                     \
    "sw a4, " o0 "(a5)\nsw a6, " o1 "(a5)\nsw a7, " o2 "(a5)\nsw ra, " o3 "(a5)\n" TL_ZEROS(s0, s1, s2, s3)
#define TL_ADD_EVEN(...) TL_EACH(TL_ADD_EVERY_OTHER, "0", "8", "16", "24", __VA_ARGS__)
#define TL_ADD_ODD(...) TL_EACH(TL_ADD_EVERY_OTHER, "4", "12", "20", "28", __VA_ARGS__)

/* s11: channels that are left, s1: blocks that are done. */
#define TL_SQUARES                                                                                                     \
    TL_ROWS(TL_ZEROS) "0:\nlw s11, %[left]\nli a5, 16\nmv a4, s11\nble s11, a5, 1f\nmv a4, a5\n"                       \
    "1:\nsub s11, s11, a4\nsw s11, %[left]\n.balign 4\n.option push\n.option norvc\n"                                  \
    TL_LOOP("a4", "112") TL_SQUARES_TERM ".option pop\n"                                                               \
    "lw a5, %[lower]\n" TL_ADD_ODD(TL_ALL_TAPS) "lw s1, %[blocks]\naddi s1, s1, 1\nsw s1, %[blocks]\n"                 \
    "beqz s11, 2f\nandi a4, s1, 1\nbnez a4, 0b\n2:\n" TL_ADD_EVEN(TL_DOWN) "lw a5, %[upper]\n" TL_ADD_ODD(TL_ACROSS)   \
    "beqz s11, 3f\nandi a4, s1, 3\nbnez a4, 0b\n3:\n" TL_ADD_EVEN(TL_ONE) "bnez s11, 0b\n"
/* clang-format on */

/* Adds what the channels are to outputs of two rows; blocks of 16, 32 and 64 of them where there are four, two taps and
 * one. */
static inline __attribute__((always_inline)) void tl_xpulp_squares(const float *met, const float *at, int w_co,
                                                                   int channels, float *upper, float *lower)
{
    const float *y = met + 1;
    int blocks = 0;
    __asm__ volatile(TL_SQUARES
                     : [y] "+&r"(y), [at] "+&r"(at), [left] "+m"(channels), [blocks] "+m"(blocks)
                     : [step] "r"(4 * w_co - 32), [upper] "m"(upper), [lower] "m"(lower)
                     : "s0", TL_USED);
}
#endif
#endif
