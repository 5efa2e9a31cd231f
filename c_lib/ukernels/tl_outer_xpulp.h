/* Rows of four results of two terms by PULP's own instructions: a hardware loop of loads and stores that advance;
 * internal to c_lib/kernels. */
#ifndef TL_OUTER_XPULP_H
#define TL_OUTER_XPULP_H
#include "tl_dot.h"

#ifdef TL_XPULP_DOTS
#define TL_XPULP_OUTER

/* clang-format off */
#define TL_FIRST_OF_TWO(s, x) "fmadd.s %[" s "], %[w0], %[" x "], x0\n"
#define TL_SECOND_OF_TWO(s, y) "fmadd.s %[" s "], %[w1], %[" y "], %[" s "]\n"
#define TL_ONTO_FROM(s, q) "fadd.s %[" s "], %[" q "], %[" s "]\n"
/* A load or store stands behind every second operation of the float unit. Both weights make room for two of the numbers
 * that sums are added to. */
#define TL_ROW_OF_TWO                                                                                                  \
    TL_LOAD_STEP("%[w0]", "%[a]", "%[a_k]") TL_LOAD_STEP("%[w1]", "%[a]", "%[a_next]")                                 \
    TL_FIRST_OF_TWO("s0", "x0") TL_FIRST_OF_TWO("s1", "x1") TL_LOAD("%[q0]", "%[from]")                                \
    TL_FIRST_OF_TWO("s2", "x2") TL_FIRST_OF_TWO("s3", "x3") TL_LOAD("%[q1]", "%[from]")                                \
    TL_SECOND_OF_TWO("s0", "y0") TL_SECOND_OF_TWO("s1", "y1") TL_LOAD("%[w0]", "%[from]")                              \
    TL_SECOND_OF_TWO("s2", "y2") TL_SECOND_OF_TWO("s3", "y3") TL_LOAD_STEP("%[w1]", "%[from]", "%[from_next]")         \
    TL_ONTO_FROM("s0", "q0") TL_ONTO_FROM("s1", "q1") TL_STORE_ON("%[s0]", "%[to]")                                    \
    TL_ONTO_FROM("s2", "w0") TL_ONTO_FROM("s3", "w1") TL_STORE_ON("%[s1]", "%[to]") TL_STORE_ON("%[s2]", "%[to]")      \
    TL_STORE_STEP("%[s3]", "%[to]", "%[to_next]")
/* clang-format on */

/* to[i][j] = from[i][j] + a[i][0] x[j] + a[i][1] y[j] for n > 0 rows of four. */
static inline void tl_xpulp_rows_of_two(const float *a, int a_m, int a_k, const float *x, const float *y,
                                        const float *from, int from_m, float *to, int to_m, int n)
{
    float w0, w1, s0, s1, s2, s3, q0, q1;
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", "44") TL_ROW_OF_TWO ".option pop\n"
                     : [a] "+&r"(a), [from] "+&r"(from), [to] "+&r"(to), [w0] "=&r"(w0), [w1] "=&r"(w1), [s0] "=&r"(s0),
                       [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [q0] "=&r"(q0), [q1] "=&r"(q1)
                     : [a_k] "r"(4 * a_k), [a_next] "r"(4 * (a_m - a_k)), [from_next] "r"(4 * from_m - 12),
                       [to_next] "r"(4 * to_m - 12), [x0] "r"(x[0]), [x1] "r"(x[1]), [x2] "r"(x[2]), [x3] "r"(x[3]),
                       [y0] "r"(y[0]), [y1] "r"(y[1]), [y2] "r"(y[2]), [y3] "r"(y[3]), [n] "r"(n)
                     : "memory");
}
#endif
#endif
