/* Transformed inputs of Winograd's convolutions of halves by PULP's own instructions; internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_WHOLE_XPULP_H
#define TL_WINOGRAD_WHOLE_XPULP_H
#include "tl_winograd_whole.h"
#include "tl_xpulp.h"
#ifdef TL_XF16AUXVEC

/* clang-format off */
/* A column of B' d from its rows x0 .. x3; none of the first three registers is one of the rows behind it. */
#define TL_ROWS_OF(r0, r1, r2, r3, x0, x1, x2, x3)                                                                     \
    TL_MINUS(r0, x0, x2) TL_PLUS(r1, x1, x2) TL_MINUS(r3, x1, x3) TL_MINUS(r2, x2, x1)
/* t3 .. t6: the column of four halves at so many bytes, as pairs. */
#define TL_PAIRS_AT(at)                                                                                                \
    "lhu t3, " at "(%[p0])\nlhu s2, " at "(%[q0])\nlhu t4, " at "(%[p1])\nlhu s3, " at "(%[q1])\n"                     \
    "lhu t5, " at "(%[p2])\nlhu s4, " at "(%[q2])\nlhu t6, " at "(%[p3])\nlhu s5, " at "(%[q3])\n"                     \
    TL_PAIR_OF("t3", "t3", "s2") TL_PAIR_OF("t4", "t4", "s3") TL_PAIR_OF("t5", "t5", "s4") TL_PAIR_OF("t6", "t6", "s5")
#define TL_WORDS_OF(n, p, q) TL_LOAD(p, "%[p" n "]") TL_LOAD(q, "%[q" n "]")
/* The lower halves of p and q to a register, the upper ones in the place of p. */
#define TL_TWO_PAIRS(lower, p, q) TL_PAIR_OF(lower, p, q) TL_CHOOSE_HALVES(p, q, "a7")
/* A row, so many bytes on, of a tile whose columns are a, b, d and the next one's b: its last element is made where
 * that one begins. The row at 0 comes last and goes on to the next tile. */
#define TL_ACROSS_WORDS(at, a, before, b, d)                                                                           \
    TL_MINUS(before, before, b) TL_MINUS(a, a, d) TL_PLUS("t4", b, d) "sw " before ", " at "+44(%[v])\n"               \
    TL_MINUS(before, d, b) "sw " a ", " at "(%[v])\nsw t4, " at "+16(%[v])\nsw " before ", " at "+32(%[v])\n"          \
    "mv " a ", " d "\nmv " before ", " b "\n"
#define TL_LAST_ACROSS(a, before, b, d)                                                                                \
    TL_MINUS(before, before, b) TL_MINUS("t4", a, d) TL_PLUS("t6", b, d) "sw " before ", 44(%[v])\n"                   \
    TL_MINUS(before, d, b) "sw t6, 16(%[v])\nmv " a ", " d "\nsw " before ", 32(%[v])\nmv " before ", " b "\n"         \
    TL_STORE_ON("t4", "%[v]")
#define TL_NEXT_ROW_OF_PAIR(n)                                                                                         \
    "lw t3, %[step" n "]\nadd %[p" n "], %[p" n "], t3\nadd %[q" n "], %[q" n "], t3\n"

/* Four tiles of each of so many pairs, whose second columns lie at even places. */
static inline __attribute__((always_inline)) void tl_four_by_words(const tl_four_rows *r, tl_pair *v, int count)
{
    const tl_half *p0 = r->p[0] + 1, *p1 = r->p[1] + 1, *p2 = r->p[2] + 1, *p3 = r->p[3] + 1;
    const tl_half *q0 = p0 + r->next[0], *q1 = p1 + r->next[1], *q2 = p2 + r->next[2], *q3 = p3 + r->next[3];
    const int step0 = 4 * r->next[0] - 16, step1 = 4 * r->next[1] - 16;
    const int step2 = 4 * r->next[2] - 16, step3 = 4 * r->next[3] - 16;
    __asm__ volatile(".balign 4\n.option push\n.option norvc\nlui a7, 0x30\naddi a7, a7, 1\n"
        "1:\nlw t3, %[left]\nli t0, 0\nli t1, 0\nli t2, 0\nli s6, 0\nbeqz t3, 2f\n"
        TL_PAIRS_AT("-2") TL_ROWS_OF("t0", "t1", "t2", "s6", "t3", "t4", "t5", "t6")
        "2:\nli t3, 4\n" TL_LOOP("t3", "128")
        TL_WORDS_OF("0", "t3", "s2") TL_WORDS_OF("1", "t4", "s3") TL_WORDS_OF("2", "t5", "s4")
        TL_WORDS_OF("3", "t6", "s5")
        TL_TWO_PAIRS("s11", "t3", "s2") TL_TWO_PAIRS("s2", "t4", "s3") TL_TWO_PAIRS("s3", "t5", "s4")
        TL_TWO_PAIRS("s4", "t6", "s5")
        TL_ROWS_OF("s5", "s11", "s3", "s4", "s11", "s2", "s3", "s4")
        TL_ROWS_OF("s2", "t3", "t5", "t6", "t3", "t4", "t5", "t6")
        TL_ACROSS_WORDS("192", "s6", "s10", "s4", "t6") TL_ACROSS_WORDS("128", "t2", "s9", "s3", "t5")
        TL_ACROSS_WORDS("64", "t1", "s8", "s11", "t3") TL_LAST_ACROSS("t0", "s7", "s5", "s2")
        "lw s2, %[right]\nbeqz s2, 3f\n"
        TL_PAIRS_AT("0") TL_ROWS_OF("s2", "s3", "s4", "s5", "t3", "t4", "t5", "t6")
        TL_MINUS("s7", "s7", "s2") TL_MINUS("s8", "s8", "s3") TL_MINUS("s9", "s9", "s4") TL_MINUS("s10", "s10", "s5")
        "3:\nsw s7, 44(%[v])\nsw s8, 108(%[v])\nsw s9, 172(%[v])\nsw s10, 236(%[v])\n"
        TL_NEXT_ROW_OF_PAIR("0") TL_NEXT_ROW_OF_PAIR("1") TL_NEXT_ROW_OF_PAIR("2") TL_NEXT_ROW_OF_PAIR("3")
        "lw t3, %[count]\naddi t3, t3, -1\nsw t3, %[count]\naddi %[v], %[v], 240\nbnez t3, 1b\n.option pop\n"
        : [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3), [q0] "+r"(q0), [q1] "+r"(q1), [q2] "+r"(q2),
          [q3] "+r"(q3), [v] "+r"(v), [count] "+m"(count)
        : [step0] "m"(step0), [step1] "m"(step1), [step2] "m"(step2), [step3] "m"(step3), [left] "m"(r->left),
          [right] "m"(r->right)
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10",
          "s11", "a7");
}
/* clang-format on */
#endif
#endif
