/* Several sums of products with one vector by PULP's own instructions: a hardware loop of loads that advance; internal
 * to c_lib/kernels. */
#ifndef TL_DOTS_XPULP_H
#define TL_DOTS_XPULP_H
#include "tl_xpulp.h"

#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
#define TL_XPULP_DOTS

/* clang-format off */
/* The first load stands in front, the last term behind the loop, which ends with the load for the next one. */
#define TL_DOTS(halfwords, term)                                                                                       \
    "addi %[n], %[n], -1\n.balign 4\n.option push\n.option norvc\n" TL_LOAD("%[x]", "%[v]") "beqz %[n], 1f\n"          \
    TL_LOOP("%[n]", halfwords) term TL_LOAD("%[x]", "%[v]") "1:\n" term ".option pop\n"
#define TL_TERM_OF(line, to) TL_LOAD_STEP("%[" to "]", "%[" line "]", "%[step]")
#define TL_ONTO_SUM(sum, value) "fmadd.s %[" sum "], %[" value "], %[x], %[" sum "]\n"
#define TL_TWO_TERMS TL_TERM_OF("w0", "a") TL_TERM_OF("w1", "b") TL_ONTO_SUM("s0", "a") TL_TERM_OF("w2", "a")
#define TL_THREE_TERMS TL_TWO_TERMS TL_ONTO_SUM("s1", "b") TL_ONTO_SUM("s2", "a")
#define TL_FOUR_TERMS                                                                                                  \
    TL_TWO_TERMS TL_ONTO_SUM("s1", "b") TL_TERM_OF("w3", "b") TL_ONTO_SUM("s2", "a") TL_ONTO_SUM("s3", "b")
/* clang-format on */

/* s[r] += sum_k line_r[k step] v[k] for n > 0 terms and r < count, 3 or 4 (a literal); the lines move on. */
static inline __attribute__((always_inline)) void tl_xpulp_dots(float *s, const float **line, int step, const float *v,
                                                                int n, int count)
{
    float x, a, b;
    if (count == 3)
        __asm__ volatile(TL_DOTS("14", TL_THREE_TERMS)
                         : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [w0] "+r"(line[0]), [w1] "+r"(line[1]),
                           [w2] "+r"(line[2]), [v] "+r"(v), [n] "+r"(n), [x] "=&r"(x), [a] "=&r"(a), [b] "=&r"(b)
                         : [step] "r"(4 * step)
                         : "memory");
    else
        __asm__ volatile(TL_DOTS("18", TL_FOUR_TERMS)
                         : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [s3] "+r"(s[3]), [w0] "+r"(line[0]),
                           [w1] "+r"(line[1]), [w2] "+r"(line[2]), [w3] "+r"(line[3]), [v] "+r"(v), [n] "+r"(n),
                           [x] "=&r"(x), [a] "=&r"(a), [b] "=&r"(b)
                         : [step] "r"(4 * step)
                         : "memory");
}
#endif
#endif
