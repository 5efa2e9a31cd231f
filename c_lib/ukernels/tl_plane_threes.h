/* Tiles of 4 output channels x 3 neighbouring pixels of a dense plane, side by side; internal to c_lib/kernels. */
#ifndef TL_PLANE_THREES_H
#define TL_PLANE_THREES_H
#include "tl_plane_side.h" /* first: it sets how the whole file is compiled */
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
/* Two rows column by column, then the other two. Weights: s7, s8, s9, s10; inputs: s11, s1, ra. */
#define TL_TERM_OF_THREES(a0, a1, b0, b1)                                                                              \
    TL_MAC("t0", "s7", "s11") TL_MAC("t3", "s8", "s11") TL_LOAD_STEP("ra", "%[b]", "%[b_k]")                           \
    TL_MAC("t1", "s7", "s1") TL_MAC("t4", "s8", "s1") TL_LOAD_STEP("s9", "%[a]", "%[m]")                               \
    TL_MAC("t2", "s7", "ra") TL_MAC("t5", "s8", "ra") TL_LOAD_STEP("s10", "%[a]", "%[back]")                           \
    TL_MAC("t6", "s9", "s11") a0 TL_MAC("s4", "s10", "s11") a1                                                         \
    TL_MAC("s2", "s9", "s1") TL_MAC("s5", "s10", "s1") b0                                                              \
    TL_MAC("s3", "s9", "ra") TL_MAC("s6", "s10", "ra") b1
#define TL_FIRST_OF_THREES                                                                                             \
    TL_LOAD_STEP("s7", "%[a]", "%[m]"), TL_LOAD_STEP("s8", "%[a]", "%[m]"), TL_LOAD("s11", "%[b]"), \
        TL_LOAD("s1", "%[b]")
#define TL_THREES_FIRST(a0, a1, b0, b1) a0 a1 b0 b1
#define TL_THREES_ROWS(what) what("t0", "t1", "t2") what("t3", "t4", "t5") what("t6", "s2", "s3") what("s4", "s5", "s6")
#define TL_THREES_ZEROS(s0, s1, s2) "li " s0 ", 0\nli " s1 ", 0\nli " s2 ", 0\n"
/* Added to what s7 points at, by s8 and s1, and stored where s11 does, by s9. */
#define TL_THREES_SAVE(s0, s1, s2)                                                                                     \
    TL_LOAD_STEP("s10", "s7", "s8") TL_LOAD_STEP("ra", "s7", "s8") TL_LOAD_STEP("a7", "s7", "s1")                      \
    "fadd.s " s0 ", s10, " s0 "\nfadd.s " s1 ", ra, " s1 "\n" TL_STORE_ON(s0, "s11")                                   \
    "fadd.s " s2 ", a7, " s2 "\n" TL_STORE_ON(s1, "s11") TL_STORE_STEP(s2, "s11", "s9")
/* clang-format on */

static inline __attribute__((always_inline)) void tl_plane_threes(const tl_plane_side *t)
{
    const float *a = t->w, *b = t->in, *base = t->base;
    float *to = t->out;
    int count = t->count;
    const int terms = t->terms - 1, a_next = 4 * t->terms * t->w_term, b_next = 4 * (t->terms * t->in_c - 3);
    const int base_step = 4 * t->base_step, base_rest = 4 * t->base_row - 2 * base_step;
    const int base_next = 3 * base_step - 16 * t->base_row, to_rest = 4 * t->out_c - 8, to_next = 12 - 16 * t->out_c;
    __asm__ volatile(
        "0:\nlw a7, %[terms]\n" TL_THREES_ROWS(TL_THREES_ZEROS) ".balign 4\n.option push\n.option norvc\n" TL_EACH(
            TL_THREES_FIRST, TL_FIRST_OF_THREES) "beqz a7, 3f\n" TL_LOOP("a7", "38")
            TL_EACH(TL_TERM_OF_THREES, TL_FIRST_OF_THREES) "3:\n" TL_TERM_OF_THREES(
                "lw s7, %[base]\n", "lw s8, %[base_step]\n", "lw s11, %[to]\n",
                "lw s1, %[base_rest]\n") ".option pop\nlw s9, %[to_rest]\n" TL_THREES_ROWS(TL_THREES_SAVE) "lw s8, "
                                                                                                           "%[base_"
                                                                                                           "next]\nlw "
                                                                                                           "s9, "
                                                                                                           "%[to_next]"
                                                                                                           "\nlw s10, "
                                                                                                           "%[a_next]"
                                                                                                           "\nlw ra, "
                                                                                                           "%[b_next]\n"
                                                                                                           "addi "
                                                                                                           "%[count], "
                                                                                                           "%[count], "
                                                                                                           "-1\nadd "
                                                                                                           "s7, s7, "
                                                                                                           "s8\nadd "
                                                                                                           "s11, s11, "
                                                                                                           "s9\nsw s7, "
                                                                                                           "%[base]"
                                                                                                           "\nsw s11, "
                                                                                                           "%[to]\n"
                                                                                                           "sub %[a], "
                                                                                                           "%[a], "
                                                                                                           "s10\nsub "
                                                                                                           "%[b], "
                                                                                                           "%[b], "
                                                                                                           "ra\nbnez "
                                                                                                           "%[count], "
                                                                                                           "0b\n"
        : [a] "+&r"(a), [b] "+&r"(b), [count] "+&r"(count), [base] "+m"(base), [to] "+m"(to)
        : [m] "r"(4 * t->w_row), [back] "r"(4 * (t->w_term - 3 * t->w_row)), [b_k] "r"(4 * t->in_c - 8),
          [terms] "m"(terms), [a_next] "m"(a_next), [b_next] "m"(b_next), [base_step] "m"(base_step),
          [base_rest] "m"(base_rest), [base_next] "m"(base_next), [to_rest] "m"(to_rest), [to_next] "m"(to_next)
        : "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8",
          "s9", "s10", "s11", "a7");
}
#else
static inline void tl_plane_threes(const tl_plane_side *t)
{
    tl_plane_any(t, 3);
}
#endif
#endif
