/* Whole rows of eight pixels of two channels, for tl_inside.h, by PULP's own instructions: a kernel row is a hardware
 * loop of 36 multiply-adds and 12 loads, as its weights stay in registers; internal to c_lib/kernels. */
#ifndef TL_INSIDE_WHOLE_XPULP_H
#define TL_INSIDE_WHOLE_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
/* Sums, by channel and pixel. */
#define TL_A0 "t0"
#define TL_A1 "t1"
#define TL_A2 "t2"
#define TL_A3 "t3"
#define TL_A4 "t4"
#define TL_A5 "t5"
#define TL_A6 "t6"
#define TL_A7 "s2"
#define TL_B0 "s3"
#define TL_B1 "s4"
#define TL_B2 "s5"
#define TL_B3 "s6"
#define TL_B4 "s7"
#define TL_B5 "s8"
#define TL_B6 "s9"
#define TL_B7 "s10"

/* An element from right to left, and the three pixels that it meets. Weights: s1, s11, a4 and a5, a6, a7; elements: s0
 * and ra in turn, of which `more` loads the next one. */
#define TL_ELEMENT(x0, x1, x2, e, more)                                                                                \
    TL_MAC(TL_A##x0, "s1", e) TL_MAC(TL_B##x0, "a5", e) TL_MAC(TL_A##x1, "s11", e) more                                \
    TL_MAC(TL_B##x1, "a6", e) TL_MAC(TL_A##x2, "a4", e) TL_MAC(TL_B##x2, "a7", e)
#define TL_ROW_OF_WHOLE                                                                                                \
    TL_LOAD_BY("-4", "s0", "%[in]") TL_LOAD_BY("12", "s1", "%[w]") "lw a5, 24(%[w])\n" TL_MAC(TL_A5, "s1", "s0")       \
    "lw s11, -8(%[w])\n" TL_MAC(TL_B5, "a5", "s0") "lw a6, 28(%[w])\n" TL_MAC(TL_A6, "s11", "s0")                      \
    "lw a4, -4(%[w])\n" TL_MAC(TL_B6, "a6", "s0") "lw a7, 32(%[w])\n" TL_MAC(TL_A7, "a4", "s0")                        \
    TL_LOAD_BY("-4", "ra", "%[in]") TL_MAC(TL_B7, "a7", "s0")                                                          \
    TL_ELEMENT(4, 5, 6, "ra", TL_LOAD_BY("-4", "s0", "%[in]"))                                                         \
    TL_ELEMENT(3, 4, 5, "s0", TL_LOAD_BY("-4", "ra", "%[in]"))                                                         \
    TL_ELEMENT(2, 3, 4, "ra", TL_LOAD_BY("-4", "s0", "%[in]"))                                                         \
    TL_ELEMENT(1, 2, 3, "s0", TL_LOAD_STEP("ra", "%[in]", "%[step]")) TL_ELEMENT(0, 1, 2, "ra", "")
/* A tap alone, of element 5 on. */
#define TL_ONE_OF_WHOLE(a, b, x5, x4, x3, x2, x1, x0)                                                                  \
    "lw s1, " a "(%[w])\nlw s0, 0(%[in])\nlw s11, " b "(%[w])\nlw ra, -4(%[in])\n"                                     \
    TL_BOTH(x5, "s0", "lw s0, -8(%[in])\n") TL_BOTH(x4, "ra", "lw ra, -12(%[in])\n")                                   \
    TL_BOTH(x3, "s0", "lw s0, -16(%[in])\n") TL_BOTH(x2, "ra", "lw ra, -20(%[in])\n")                                  \
    TL_BOTH(x1, "s0", "") TL_BOTH(x0, "ra", "")
#define TL_BOTH(x, e, more) TL_MAC(TL_A##x, "s1", e) TL_MAC(TL_B##x, "s11", e) more
#define TL_SECOND_OF_WHOLE TL_ONE_OF_WHOLE("4", "40", 6, 5, 4, 3, 2, 1)

#define TL_FOUR_ONTO(s0, s1, s2, s3, last)                                                                             \
    TL_LOAD_STEP("s1", "a5", "a7") TL_LOAD_STEP("s11", "a5", "a7") TL_LOAD_STEP("a6", "a5", "a7")                      \
    "fadd.s " s0 ", s1, " s0 "\n" TL_LOAD_STEP("s1", "a5", last)                                                       \
    "fadd.s " s1 ", s11, " s1 "\nfadd.s " s2 ", a6, " s2 "\nfadd.s " s3 ", s1, " s3 "\n"
#define TL_EIGHT_ONTO(s)                                                                                               \
    TL_FOUR_ONTO(s##0, s##1, s##2, s##3, "a7") TL_FOUR_ONTO(s##4, s##5, s##6, s##7, "s0")
#define TL_EIGHT_SAVE(s)                                                                                               \
    "sw " s##0 ", 0(a4)\nsw " s##1 ", 4(a4)\nsw " s##2 ", 8(a4)\nsw " s##3 ", 12(a4)\n"                                \
    "sw " s##4 ", 16(a4)\nsw " s##5 ", 20(a4)\nsw " s##6 ", 24(a4)\nsw " s##7 ", 28(a4)\n"

/* As TL_TILE_INSIDE. a7: what a block says. */
#define TL_TILE_WHOLE                                                                                                  \
    "lw %[step], %[in_rest]\n0:\n" TL_LOAD("a7", "%[plan]") TL_ROWS(TL_ZEROS)                                          \
    "beqz a7, 4f\nandi a6, a7, 3\nbeqz a6, 3f\naddi a6, a6, -1\nbnez a6, 2f\n" TL_SECOND_OF_WHOLE                      \
    "2:\n" TL_ONE_OF_WHOLE("8", "44", 7, 6, 5, 4, 3, 2) "lw a6, %[in_row]\naddi %[w], %[w], 12\nadd %[in], %[in], a6\n"\
    "3:\nandi a6, a7, 8\nbeqz a6, 4f\nlw a4, %[in_next]\nlw a5, %[w_next]\nadd %[in], %[in], a4\nadd %[w], %[w], a5\n" \
    "4:\n" TL_LOAD("a4", "%[plan]") "beqz a4, 5f\n.balign 4\n.option push\n.option norvc\n"                            \
    TL_OUTER_LOOP("a4", "108") "lw a5, 0(%[plan])\n" TL_LOOP("a5", "96") TL_ROW_OF_WHOLE                               \
    "lw s0, %[in_next]\nlw s1, %[w_next]\nadd %[in], %[in], s0\nadd %[w], %[w], s1\n.option pop\n"                     \
    "addi %[plan], %[plan], 4\nj 4b\n"                                                                                 \
    "5:\nlw a7, 0(%[plan])\nbeqz a7, 7f\nandi a6, a7, 4\nbeqz a6, 6f\nlw a4, %[in_next]\nlw a5, %[w_next]\n"           \
    "sub %[in], %[in], a4\nsub %[w], %[w], a5\n"                                                                       \
    "6:\nandi a7, a7, 3\nbeqz a7, 7f\n" TL_ONE_OF_WHOLE("0", "36", 5, 4, 3, 2, 1, 0)                                   \
    "addi a7, a7, -1\nbeqz a7, 7f\n" TL_SECOND_OF_WHOLE                                                                \
    "7:\nlw a4, %[out]\nlw a5, %[base]\nlw a7, %[base_x]\nlw s0, %[base_rest]\nlw ra, %[out_c]\nsw a4, %[base]\n"      \
    TL_EIGHT_ONTO(TL_A) TL_EIGHT_ONTO(TL_B) TL_EIGHT_SAVE(TL_A) "add a4, a4, ra\naddi ra, ra, -28\n"                   \
    TL_EIGHT_SAVE(TL_B) "lw a5, 4(%[plan])\nli a6, 4\nsw ra, %[base_rest]\nsw a6, %[base_x]\nbgez a5, 0b\n"
/* clang-format on */

/* Uses up what the first block is added to. */
static inline __attribute__((always_inline)) void tl_inside_whole(tl_inside *t)
{
    const float *in = t->in, *w = t->w;
    const int *plan = t->plan;
    int step;
    __asm__ volatile(TL_TILE_WHOLE
                     : [in] "+&r"(in), [w] "+&r"(w), [plan] "+&r"(plan), [step] "=&r"(step), [base] "+m"(t->base),
                       [base_x] "+m"(t->base_x), [base_rest] "+m"(t->base_rest)
                     : [in_rest] "m"(t->in_rest), [in_row] "m"(t->in_row), [in_next] "m"(t->in_next),
                       [w_next] "m"(t->w_next), [out] "m"(t->out), [out_c] "m"(t->out_c)
                     : "s0", TL_USED);
}
#endif
#endif
