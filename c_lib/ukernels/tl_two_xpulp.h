/* Four rows times two columns by PULP's own instructions: a hardware loop of loads that advance; internal to
 * c_lib/kernels. */
#ifndef TL_TWO_XPULP_H
#define TL_TWO_XPULP_H
#include "tl_dot.h"

#ifdef TL_XPULP_DOTS
#define TL_XPULP_TWO

/* clang-format off */
#define TL_TWO_ROW(to, by) TL_LOAD_STEP("%[" to "]", "%[a]", "%[" by "]")
#define TL_TWO_ONTO(sum, w, x) "fmadd.s " sum ", %[" w "], %[" x "], " sum "\n"
#define TL_TWO_NEXT TL_LOAD_STEP("%[x0]", "%[x]", "%[col]")
/* A load stands behind every second multiply-add or sooner; the last row's goes on to the next term. */
#define TL_TWO_TERM                                                                                                    \
    TL_TWO_ROW("w0", "row") TL_LOAD_STEP("%[x1]", "%[x]", "%[back]") TL_TWO_ONTO("t0", "w0", "x0")                     \
    TL_TWO_ROW("w1", "row") TL_TWO_ONTO("t1", "w0", "x1") TL_TWO_ONTO("t2", "w1", "x0")                                \
    TL_TWO_ROW("w0", "row") TL_TWO_ONTO("t3", "w1", "x1") TL_TWO_ONTO("t4", "w0", "x0")                                \
    TL_TWO_ROW("w1", "next") TL_TWO_ONTO("t5", "w0", "x1") TL_TWO_ONTO("t6", "w1", "x0") TL_TWO_ONTO("s2", "w1", "x1")
/* clang-format on */

/* sum[2 i + j] = sum_k a[i a_m + k a_k] x[k x_k + j x_n] for n > 0 terms. */
static inline __attribute__((always_inline)) void tl_xpulp_two(const float *a, int a_m, int a_k, const float *x,
                                                               int x_k, int x_n, int n, float *sum)
{
    float x0, x1, w0, w1;
    __asm__ volatile(
        "li t0, 0\nli t1, 0\nli t2, 0\nli t3, 0\nli t4, 0\nli t5, 0\nli t6, 0\nli s2, 0\naddi %[n], %[n], -1\n"
        ".balign 4\n.option push\n.option norvc\n" TL_TWO_NEXT "beqz %[n], 1f\n" TL_LOOP("%[n]", "28")
            TL_TWO_TERM TL_TWO_NEXT "1:\n" TL_TWO_TERM ".option pop\n"
                                    "sw t0, 0(%[sum])\nsw t1, 4(%[sum])\nsw t2, 8(%[sum])\nsw t3, 12(%[sum])\n"
                                    "sw t4, 16(%[sum])\nsw t5, 20(%[sum])\nsw t6, 24(%[sum])\nsw s2, 28(%[sum])\n"
        : [a] "+&r"(a), [x] "+&r"(x), [n] "+&r"(n), [x0] "=&r"(x0), [x1] "=&r"(x1), [w0] "=&r"(w0), [w1] "=&r"(w1)
        : [row] "r"(4 * a_m), [next] "r"(4 * (a_k - 3 * a_m)), [col] "r"(4 * x_n), [back] "r"(4 * (x_k - x_n)),
          [sum] "r"(sum)
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2");
}
#endif
#endif
