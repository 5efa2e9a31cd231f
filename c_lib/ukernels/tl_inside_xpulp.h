/* The tiles of tl_inside.h by PULP's own instructions: kernel rows of four channels x three or four pixels are a
 * hardware loop of 36 multiply-adds and 16 or 17 loads; internal to c_lib/kernels. */
#ifndef TL_INSIDE_XPULP_H
#define TL_INSIDE_XPULP_H
#include "tl_inside_whole_xpulp.h"
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
#define TL_XPULP_INSIDE

/* clang-format off */
/* Sums, by channel and pixel. From right to left elements meet the last pixel first. */
#define TL_S00 "t0"
#define TL_S01 "t1"
#define TL_S02 "t2"
#define TL_S03 "t3"
#define TL_S10 "t4"
#define TL_S11 "t5"
#define TL_S12 "t6"
#define TL_S13 "s2"
#define TL_S20 "s3"
#define TL_S21 "s4"
#define TL_S22 "s5"
#define TL_S23 "s6"
#define TL_S30 "s7"
#define TL_S31 "s8"
#define TL_S32 "s9"
#define TL_S33 "s10"
#define TL_ALONG_0(r) TL_S##r##0
#define TL_ALONG_1(r) TL_S##r##1
#define TL_ALONG_2(r) TL_S##r##2
#define TL_BACK3_0(r) TL_S##r##2
#define TL_BACK3_1(r) TL_S##r##1
#define TL_BACK3_2(r) TL_S##r##0
#define TL_BACK4_0(r) TL_S##r##3
#define TL_BACK4_1(r) TL_S##r##2
#define TL_BACK4_2(r) TL_S##r##1
#define TL_BACK4_3(r) TL_S##r##0

/* Weights: s1, s11; elements: a4 to a7; s0: to those of the next kernel row. */
/* Three pixels; ra: to the next channel's weight, a7: from the last one's to the next tap. */
#define TL_DOWN(to) TL_LOAD_STEP(to, "%[w]", "ra")
#define TL_AT_3(s, r, w, e0, e1, e2) TL_MAC(s##_0(r), w, e0) TL_MAC(s##_1(r), w, e1) TL_MAC(s##_2(r), w, e2)
/* `more`: the next element in place of the tap's first one. */
#define TL_TAP_OF_MIDDLE(s, e0, e1, e2, more, w0, w1)                                                                  \
    TL_AT_3(s, 0, "s1", e0, e1, e2) TL_DOWN("s1") TL_AT_3(s, 1, "s11", e0, e1, e2)                                     \
    TL_LOAD_STEP("s11", "%[w]", "a7") TL_AT_3(s, 2, "s1", e0, e1, e2) w0 TL_MAC(s##_0(3), "s11", e0) more              \
    TL_MAC(s##_1(3), "s11", e1) TL_MAC(s##_2(3), "s11", e2) w1
#define TL_ROW_OF_MIDDLE(s, by)                                                                                        \
    TL_LOAD_BY(by, "a4", "%[in]") TL_DOWN("s1") TL_LOAD_BY(by, "a5", "%[in]") TL_DOWN("s11")                           \
    TL_LOAD_BY(by, "a6", "%[in]")                                                                                      \
    TL_TAP_OF_MIDDLE(s, "a4", "a5", "a6", TL_LOAD_BY(by, "a4", "%[in]"), TL_DOWN("s1"), TL_DOWN("s11"))                \
    TL_TAP_OF_MIDDLE(s, "a5", "a6", "a4", TL_LOAD_STEP("a5", "%[in]", "s0"), TL_DOWN("s1"), TL_DOWN("s11"))            \
    TL_TAP_OF_MIDDLE(s, "a6", "a4", "a5", "", "", "")
/* A tap alone; e: where its elements are. */
#define TL_ONE_OF_MIDDLE(s, tap, e0, e1, e2)                                                                           \
    "lw a4, " e0 "(%[in])\nlw a5, " e1 "(%[in])\nlw a6, " e2 "(%[in])\naddi s11, %[w], " tap "\n"                      \
    TL_LOAD_STEP("s1", "s11", "ra") TL_AT_3(s, 0, "s1", "a4", "a5", "a6")                                              \
    TL_LOAD_STEP("s1", "s11", "ra") TL_AT_3(s, 1, "s1", "a4", "a5", "a6")                                              \
    TL_LOAD_STEP("s1", "s11", "ra") TL_AT_3(s, 2, "s1", "a4", "a5", "a6")                                              \
    TL_LOAD_STEP("s1", "s11", "ra") TL_AT_3(s, 3, "s1", "a4", "a5", "a6")

/* Four pixels of an input gradient, whose channels have their weights 9 apart. */
#define TL_LEFT_0(r, w) TL_MAC(TL_BACK4_0(r), w, "a4") TL_MAC(TL_BACK4_1(r), w, "a5")                                  \
    TL_MAC(TL_BACK4_2(r), w, "a6") TL_MAC(TL_BACK4_3(r), w, "a7")
#define TL_LEFT_1(r, w) TL_AT_3(TL_BACK4, r, w, "a5", "a6", "a7")
#define TL_LEFT_2(r, w) TL_MAC(TL_BACK4_0(r), w, "a6") TL_MAC(TL_BACK4_1(r), w, "a7")
#define TL_RIGHT_0(r, w) TL_MAC(TL_BACK4_2(r), w, "a4") TL_MAC(TL_BACK4_3(r), w, "a5")
#define TL_RIGHT_1(r, w)                                                                                               \
    TL_MAC(TL_BACK4_1(r), w, "a4") TL_MAC(TL_BACK4_2(r), w, "a5") TL_MAC(TL_BACK4_3(r), w, "a6")
#define TL_RIGHT_2(r, w) TL_LEFT_0(r, w)
#define TL_NINES(to, at) "lw " to ", " at "(%[w])\n"
#define TL_TAP_OF_EDGE(what, at0, at1, at2, at3, on)                                                                   \
    TL_NINES("s1", at0) TL_NINES("s11", at1) what(0, "s1") TL_NINES("s1", at2) what(1, "s11")                          \
    TL_NINES("s11", at3) on what(2, "s1") what(3, "s11")
#define TL_ROW_OF_EDGE(what)                                                                                           \
    TL_LOAD_BY("-4", "a4", "%[in]") TL_LOAD_BY("-4", "a5", "%[in]") TL_LOAD_BY("-4", "a6", "%[in]")                    \
    TL_LOAD_STEP("a7", "%[in]", "s0")                                                                                  \
    TL_TAP_OF_EDGE(what##_0, "0", "36", "72", "108", "")                                                               \
    TL_TAP_OF_EDGE(what##_1, "4", "40", "76", "112", "")                                                               \
    TL_TAP_OF_EDGE(what##_2, "8", "44", "80", "116", "addi %[w], %[w], 12\n")
#define TL_ONE_OF_EDGE(what, at0, at1, at2, at3)                                                                       \
    "lw a4, 0(%[in])\nlw a5, -4(%[in])\nlw a6, -8(%[in])\nlw a7, -12(%[in])\n"                                         \
    TL_TAP_OF_EDGE(what, at0, at1, at2, at3, "")

#define TL_ZEROS_3(s0, s1, s2, s3) "li " s0 ", 0\nli " s1 ", 0\nli " s2 ", 0\n"
#define TL_ONTO_3(s0, s1, s2, s3)                                                                                      \
    TL_LOAD_STEP("s1", "a5", "a7") TL_LOAD_STEP("s11", "a5", "a7") "fadd.s " s0 ", s1, " s0 "\n"                       \
    TL_LOAD_STEP("a6", "a5", "s0") "fadd.s " s1 ", s11, " s1 "\nfadd.s " s2 ", a6, " s2 "\n"
#define TL_SAVE_3(s0, s1, s2, s3) "sw " s1 ", 4(a4)\nsw " s2 ", 8(a4)\n" TL_STORE_STEP(s0, "a4", "ra")

/* A tile by its plan. wide: bytes from its first pixel to the last; zeros, onto, save: of its sums; row: a loop of 53
 * instructions; one0 to one2: a tap alone; steps: what it needs to walk through weights. s0: what a block says. */
#define TL_TILE_INSIDE(wide, zeros, onto, save, steps, row, one0, one1, one2)                                          \
    "lw %[in], 0(%[t])\nlw %[w], 4(%[t])\nlw %[plan], 48(%[t])\n"                                                      \
    "0:\n" TL_LOAD("s0", "%[plan]") TL_ROWS(zeros) steps                                                               \
    "beqz s0, 4f\nandi a4, s0, 3\nbeqz a4, 3f\naddi a4, a4, -1\nbnez a4, 2f\n" one1                                    \
    "2:\n" one2 "lw a4, 52(%[t])\naddi %[w], %[w], 12\nadd %[in], %[in], a4\n"                                         \
    "3:\nandi a4, s0, 8\nbeqz a4, 4f\nlw a4, 20(%[t])\nlw a5, 24(%[t])\nadd %[in], %[in], a4\nadd %[w], %[w], a5\n"    \
    "4:\nlw s0, 8(%[t])\n" steps                                                                                       \
    "8:\n" TL_LOAD("a4", "%[plan]") "beqz a4, 5f\n.balign 4\n.option push\n.option norvc\n"                            \
    TL_OUTER_LOOP("a4", "118") "lw a5, 0(%[plan])\n" TL_LOOP("a5", "106") row                                          \
    "lw s1, 20(%[t])\nlw s11, 24(%[t])\nadd %[in], %[in], s1\nadd %[w], %[w], s11\n.option pop\n"                      \
    "addi %[plan], %[plan], 4\nj 8b\n"                                                                                 \
    "5:\nlw s0, 0(%[plan])\nbeqz s0, 7f\nandi a4, s0, 4\nbeqz a4, 6f\nlw a4, 20(%[t])\nlw a5, 24(%[t])\n"              \
    "sub %[in], %[in], a4\nsub %[w], %[w], a5\n"                                                                       \
    "6:\nandi s0, s0, 3\nbeqz s0, 7f\n" one0 "addi s0, s0, -1\nbeqz s0, 7f\n" one1                                     \
    "7:\nlw a5, 36(%[t])\nlw s0, 40(%[t])\nlw a7, 44(%[t])\nlw a4, 28(%[t])\nlw ra, 32(%[t])\n"                        \
    "sw a4, 36(%[t])\n" TL_ROWS(onto) TL_ROWS(save) "lw a4, 4(%[plan])\nli a5, 4\naddi ra, ra, -" wide "\n"            \
    "sw a5, 44(%[t])\nsw ra, 40(%[t])\nbgez a4, 0b\n"
#define TL_MIDDLE_STEPS "lw ra, 12(%[t])\nlw a7, 16(%[t])\n"
#define TL_INSIDE_ASM(...)                                                                                             \
    __asm__ volatile(TL_TILE_INSIDE(__VA_ARGS__)                                                                       \
                     : [in] "=&r"(in), [w] "=&r"(w), [plan] "=&r"(plan)                                                \
                     : [t] "r"(t)                                                                                      \
                     : "s0", TL_USED)
#define TL_MIDDLE_ASM(s, by, e1, e2, e3, e4)                                                                           \
    TL_INSIDE_ASM("8", TL_ZEROS_3, TL_ONTO_3, TL_SAVE_3, TL_MIDDLE_STEPS, TL_ROW_OF_MIDDLE(s, by),                     \
                  TL_ONE_OF_MIDDLE(s, "0", "0", e1, e2), TL_ONE_OF_MIDDLE(s, "4", e1, e2, e3),                         \
                  TL_ONE_OF_MIDDLE(s, "8", e2, e3, e4))
#define TL_EDGE_ASM(what)                                                                                              \
    TL_INSIDE_ASM("12", TL_ZEROS, TL_ONTO, TL_SAVE, "", TL_ROW_OF_EDGE(what),                                          \
                  TL_ONE_OF_EDGE(what##_0, "0", "36", "72", "108"), TL_ONE_OF_EDGE(what##_1, "4", "40", "76", "112"),  \
                  TL_ONE_OF_EDGE(what##_2, "8", "44", "80", "116"))
/* clang-format on */

/* Uses up what the first block is added to. */
static inline __attribute__((always_inline)) void tl_inside_tile(tl_inside *t, int step, int where)
{
    const float *in, *w;
    const int *plan;
    if (where == TL_WHOLE)
        tl_inside_whole(t);
    else if (where == TL_LEFT)
        TL_EDGE_ASM(TL_LEFT);
    else if (where == TL_RIGHT)
        TL_EDGE_ASM(TL_RIGHT);
    else if (step > 0)
        TL_MIDDLE_ASM(TL_ALONG, "4", "4", "8", "12", "16");
    else
        TL_MIDDLE_ASM(TL_BACK3, "-4", "-4", "-8", "-12", "-16");
}
#endif
#endif
