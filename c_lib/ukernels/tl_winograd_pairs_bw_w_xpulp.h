/* Transformed gradients and inputs of Winograd's weight gradients of halves by PULP's own instructions, where rows lie
 * at even places; internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_PAIRS_BW_W_XPULP_H
#define TL_WINOGRAD_PAIRS_BW_W_XPULP_H
#include "tl_winograd_pairs_bw_w.h"
#include "tl_xpulp.h"
#ifdef TL_XF16AUXVEC

/* clang-format off */
/* a6 and a7 choose both upper halves, and the lower one of the first word and the upper one of the second. */
#define TL_FOURS_OF_CHANNELS(halfwords, body)                                                                          \
    ".balign 4\n.option push\n.option norvc\nlui a7, 0x30\naddi a6, a7, 1\n1:\nli t0, 4\n"                            \
    TL_LOOP("t0", halfwords) body                                                                                      \
    TL_SHORT("addi %[fours], %[fours], -1\nadd %[to], %[to], %[next]\nbnez %[fours], 1b\n") ".option pop\n"
#define TL_STORE_ROW(a, b, c, d)                                                                                       \
    "sw " b ", 16(%[to])\nsw " c ", 32(%[to])\nsw " d ", 48(%[to])\n" TL_STORE_ON(a, "%[to]")
#define TL_ROWS_OF_WORDS                                                                                               \
    "lw t1, -4(%[p])\nlw t2, -4(%[q])\n" TL_LOAD_STEP("t3", "%[p]", "%[p_step]") TL_LOAD_STEP("t4", "%[q]", "%[q_step]")
/* Four outputs of two rows: of two tiles, the even columns and the odd ones. */
#define TL_TWO_GRADIENTS(both)                                                                                         \
    TL_ROWS_OF_WORDS both("t1", "t1", "t2") both("t3", "t3", "t4")                                                     \
    TL_PAIR_OF("t2", "t1", "t3") TL_CHOOSE_HALVES("t1", "t3", "a6")                                                    \
    TL_PLUS("t4", "t2", "t1") TL_MINUS("t5", "t2", "t1") TL_STORE_ROW("t2", "t4", "t5", "t1")
/* Six inputs of two rows, the outer ones of which may be outside. */
#define TL_TWO_INPUTS(both)                                                                                            \
    TL_LOAD_HALF_STEP("t0", "%[p0]", "%[p0_step]") TL_LOAD_HALF_STEP("t5", "%[q0]", "%[q0_step]") TL_ROWS_OF_WORDS     \
    TL_LOAD_HALF_STEP("t6", "%[p5]", "%[p5_step]") TL_LOAD_HALF_STEP("s2", "%[q5]", "%[q5_step]")                      \
    both("t0", "t0", "t5") both("t1", "t1", "t2") both("t3", "t3", "t4") both("t6", "t6", "s2")                        \
    TL_PAIR_OF("t2", "t1", "t3") TL_CHOOSE_HALVES("t0", "t1", "a7") TL_CHOOSE_HALVES("t1", "t3", "a6")                 \
    TL_PAIR_OF("t3", "t3", "t6")                                                                                       \
    TL_MINUS("t0", "t0", "t1") TL_PLUS("t4", "t2", "t1") TL_MINUS("t5", "t1", "t2") TL_MINUS("t3", "t2", "t3")         \
    TL_STORE_ROW("t0", "t4", "t5", "t3")
#define TL_GRADIENT_FOURS(both)                                                                                        \
    __asm__ volatile(TL_FOURS_OF_CHANNELS("28", TL_TWO_GRADIENTS(both))                                                \
        : [p] "+r"(p), [q] "+r"(q), [to] "+r"(z), [fours] "+r"(fours)                                                  \
        : [p_step] "r"(2 * r->p_next), [q_step] "r"(2 * r->q_next), [next] "r"(4 * next)                               \
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "a6", "a7")
#define TL_INPUT_FOURS(both)                                                                                           \
    __asm__ volatile(TL_FOURS_OF_CHANNELS("48", TL_TWO_INPUTS(both))                                                   \
        : [p] "+r"(p), [q] "+r"(q), [p0] "+r"(p0), [q0] "+r"(q0), [p5] "+r"(p5), [q5] "+r"(q5), [to] "+r"(v),          \
          [fours] "+r"(fours)                                                                                          \
        : [p_step] "r"(p_step), [q_step] "r"(q_step), [p0_step] "r"(left ? p_step : 0),                                \
          [q0_step] "r"(left ? q_step : 0), [p5_step] "r"(right ? p_step : 0), [q5_step] "r"(right ? q_step : 0),      \
          [next] "r"(4 * next)                                                                                         \
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "a6", "a7")
/* clang-format on */

/* A row of two tiles' gradients for so many fours of channels, `next` words from one four to the next. */
static inline __attribute__((always_inline)) void tl_gradients_by_words(const tl_half_rows *r, int plus, tl_pair *z,
                                                                        int fours, int next)
{
    const tl_half *p = r->p + 2, *q = r->q + 2;
    if (plus)
        TL_GRADIENT_FOURS(TL_PLUS);
    else
        TL_GRADIENT_FOURS(TL_MINUS);
}

/* The same of inputs; whether the outer columns are inside, and where there are zeros if not. */
static inline __attribute__((always_inline)) void tl_inputs_by_words(const tl_half_rows *r, int plus, int left,
                                                                     int right, const void *zeros, tl_pair *v,
                                                                     int fours, int next)
{
    const tl_half *p = r->p + 3, *q = r->q + 3, *p0 = left ? r->p : zeros, *q0 = left ? r->q : zeros;
    const tl_half *p5 = right ? r->p + 5 : zeros, *q5 = right ? r->q + 5 : zeros;
    const int p_step = 2 * r->p_next, q_step = 2 * r->q_next;
    if (plus)
        TL_INPUT_FOURS(TL_PLUS);
    else
        TL_INPUT_FOURS(TL_MINUS);
}
#endif
#endif
