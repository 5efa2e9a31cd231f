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
    ".balign 4\n.option push\n.option norvc\nlui a7, 0x30\naddi a6, a7, 1\n1:\nli t0, 4\n"                             \
    TL_LOOP("t0", halfwords) body                                                                                      \
    TL_SHORT("lw t0, %[next]\nlw t1, %[fours]\nadd %[to], %[to], t0\naddi t1, t1, -1\nsw t1, %[fours]\nbnez t1, 1b\n") \
    ".option pop\n"
/* Eight columns of two rows: words t1, t3, s3, s5, and of the other row t2, t4, s4, s6. */
#define TL_WORDS_OF_ROW(p, a, b, c, d)                                                                                 \
    "lw " a ", -12(%[" p "])\nlw " b ", -8(%[" p "])\nlw " c ", -4(%[" p "])\n"                                        \
    TL_LOAD_STEP(d, "%[" p "]", "%[" p "_step]")
#define TL_WORDS_OF_ROWS TL_WORDS_OF_ROW("p", "t1", "t3", "s3", "s5") TL_WORDS_OF_ROW("q", "t2", "t4", "s4", "s6")
#define TL_OF_BOTH_ROWS(both)                                                                                          \
    both("t1", "t1", "t2") both("t3", "t3", "t4") both("s3", "s3", "s4") both("s5", "s5", "s6")
#define TL_STORE_ROWS(a, b, c, d, e, f, g, h)                                                                          \
    "sw " b ", 16(%[to])\nsw " c ", 32(%[to])\nsw " d ", 48(%[to])\nsw " e ", 64(%[to])\n"                             \
    "sw " f ", 80(%[to])\nsw " g ", 96(%[to])\nsw " h ", 112(%[to])\n" TL_STORE_ON(a, "%[to]")
/* Outputs of two rows: of two tiles, the even columns and the odd ones; then of the next two. */
#define TL_FOUR_GRADIENTS(both)                                                                                        \
    TL_WORDS_OF_ROWS TL_OF_BOTH_ROWS(both)                                                                             \
    TL_PAIR_OF("t2", "t1", "t3") TL_PAIR_OF("t4", "s3", "s5")                                                          \
    TL_CHOOSE_HALVES("t1", "t3", "a6") TL_CHOOSE_HALVES("s3", "s5", "a6")                                              \
    TL_PLUS("t3", "t2", "t1") TL_MINUS("t5", "t2", "t1") TL_PLUS("s4", "t4", "s3") TL_MINUS("s5", "t4", "s3")          \
    TL_STORE_ROWS("t2", "t3", "t5", "t1", "t4", "s4", "s5", "s3")
/* Ten inputs of two rows, the outer ones of which may be outside. */
#define TL_FOUR_INPUTS(both)                                                                                           \
    TL_LOAD_HALF_STEP("t0", "%[p0]", "%[p0_step]") TL_LOAD_HALF_STEP("t5", "%[q0]", "%[q0_step]") TL_WORDS_OF_ROWS     \
    TL_LOAD_HALF_STEP("t6", "%[p9]", "%[p9_step]") TL_LOAD_HALF_STEP("s2", "%[q9]", "%[q9_step]")                      \
    both("t0", "t0", "t5") TL_OF_BOTH_ROWS(both) both("t6", "t6", "s2")                                                \
    TL_PAIR_OF("t2", "t1", "t3") TL_PAIR_OF("t4", "t3", "s3") TL_PAIR_OF("t5", "s3", "s5")                             \
    TL_PAIR_OF("t6", "s5", "t6") TL_CHOOSE_HALVES("t0", "t1", "a7") TL_CHOOSE_HALVES("t1", "t3", "a6")                 \
    TL_CHOOSE_HALVES("t3", "s3", "a6") TL_CHOOSE_HALVES("s3", "s5", "a6")                                              \
    TL_MINUS("t0", "t0", "t1") TL_PLUS("s2", "t2", "t1") TL_MINUS("s4", "t1", "t2") TL_MINUS("t2", "t2", "t4")         \
    TL_MINUS("t3", "t3", "s3") TL_PLUS("s5", "t5", "s3") TL_MINUS("s6", "s3", "t5") TL_MINUS("t5", "t5", "t6")         \
    TL_STORE_ROWS("t0", "s2", "s4", "t2", "t3", "s5", "s6", "t5")
#define TL_GRADIENT_FOURS(both)                                                                                        \
    __asm__ volatile(TL_FOURS_OF_CHANNELS("56", TL_FOUR_GRADIENTS(both))                                               \
        : [p] "+r"(p), [q] "+r"(q), [to] "+r"(z), [fours] "+m"(fours)                                                  \
        : [p_step] "r"(2 * r->p_next), [q_step] "r"(2 * r->q_next), [next] "m"(bytes)                                  \
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "s3", "s4", "s5", "s6", "a6", "a7")
#define TL_INPUT_FOURS(both)                                                                                           \
    __asm__ volatile(TL_FOURS_OF_CHANNELS("84", TL_FOUR_INPUTS(both))                                                  \
        : [p] "+r"(p), [q] "+r"(q), [p0] "+r"(p0), [q0] "+r"(q0), [p9] "+r"(p9), [q9] "+r"(q9), [to] "+r"(v),          \
          [fours] "+m"(fours)                                                                                          \
        : [p_step] "r"(p_step), [q_step] "r"(q_step), [p0_step] "r"(left ? p_step : 0),                                \
          [q0_step] "r"(left ? q_step : 0), [p9_step] "r"(right ? p_step : 0), [q9_step] "r"(right ? q_step : 0),      \
          [next] "m"(bytes)                                                                                            \
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "a6", "a7")
/* clang-format on */

/* A row of four tiles' gradients for so many fours of channels, `next` words from one four to the next. */
static inline __attribute__((always_inline)) void tl_gradients_by_words(const tl_half_rows *r, int plus, tl_pair *z,
                                                                        int fours, int next)
{
    const tl_half *p = r->p + 6, *q = r->q + 6;
    const int bytes = 4 * next;
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
    const tl_half *p = r->p + 7, *q = r->q + 7, *p0 = left ? r->p : zeros, *q0 = left ? r->q : zeros;
    const tl_half *p9 = right ? r->p + 9 : zeros, *q9 = right ? r->q + 9 : zeros;
    const int p_step = 2 * r->p_next, q_step = 2 * r->q_next, bytes = 4 * next;
    if (plus)
        TL_INPUT_FOURS(TL_PLUS);
    else
        TL_INPUT_FOURS(TL_MINUS);
}
#endif
#endif
