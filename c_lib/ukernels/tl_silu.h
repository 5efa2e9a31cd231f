/* x sigmoid(x) and its slope, of a row: what generated loops of such a body call. Two cores share a float unit, so
 * where a core can it has something else to do between two of its float instructions, of which there are 19 of 28. */
#ifndef TL_SILU_H
#define TL_SILU_H
#include "tl_exp.h"
#include "tl_xpulp.h"

static inline void tl_silu_element(float *y, float *slope, float x)
{
    const float s = tl_sigmoidf(x);
    *y = x * s;
    *slope = tl_fmaf(x * s, 1.0f - s, s);
}

#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
/* clang-format off */
/* tl_sigmoid_by in its order: v is x, then e^-x is made in p from r, and u becomes the sigmoid. */
#define TL_SILU_LOOP                                                                                                   \
    TL_LOAD("%[v]", "%[x]") "fnmsub.s %[t], %[v], %[per], %[round]\nslli %[u], %[v], 1\n"                              \
    "fsub.s %[p], %[t], %[round]\nbgeu %[u], %[far], 1f\nfmsub.s %[r], %[p], %[high], %[v]\n"                          \
    "fmadd.s %[r], %[p], %[low], %[r]\nsub %[u], %[t], %[round]\nfmadd.s %[p], %[c0], %[r], %[c1]\n"                   \
    "fmadd.s %[p], %[p], %[r], %[c2]\nslli %[u], %[u], 23\nfmadd.s %[p], %[p], %[r], %[c3]\n"                          \
    "fmadd.s %[p], %[p], %[r], %[c4]\nfmadd.s %[p], %[p], %[r], %[one]\nfmadd.s %[p], %[p], %[r], %[one]\n"            \
    "add %[p], %[p], %[u]\nfadd.s %[p], %[one], %[p]\nsub %[u], %[seed], %[p]\n"                                       \
    "fnmsub.s %[t], %[p], %[u], %[one]\nfmadd.s %[r], %[t], %[t], %[t]\nfmadd.s %[u], %[u], %[r], %[u]\n"              \
    "fnmsub.s %[t], %[p], %[u], %[one]\nfmadd.s %[u], %[u], %[t], %[u]\nfmul.s %[r], %[v], %[u]\n"                     \
    "fsub.s %[t], %[one], %[u]\n" TL_STORE_ON("%[r]", "%[y]") "fmadd.s %[t], %[r], %[t], %[u]\n"                       \
    TL_STORE_ON("%[t]", "%[slope]")
/* clang-format on */

/* For n elements. What is far from zero, or no number, ends the loop and is done alone. */
static inline void tl_silu_row(float *y, float *slope, const float *x, int n)
{
    const tl_exp_numbers k = tl_exp_numbers_();
    const float *series = k.of + TL_EXP_SERIES;
    while (n > 0) {
        const float *first = y;
        float v, t, u, p, r;
        __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", "56") TL_SILU_LOOP
                         "1:\n.option pop\n"
                         : [x] "+r"(x), [y] "+r"(y), [slope] "+r"(slope), [v] "=&r"(v), [t] "=&r"(t), [u] "=&r"(u),
                           [p] "=&r"(p), [r] "=&r"(r)
                         : [n] "r"(n), [far] "r"(2 * (uint32_t)TL_SIGMOID_NEAR), [seed] "r"(0x7ef31000),
                           [per] "r"(k.of[TL_PER_LN2]), [round] "r"(k.of[TL_ROUND]), [high] "r"(k.of[TL_LN2]),
                           [low] "r"(k.of[TL_LN2_LOW]), [one] "r"(k.of[TL_ONE]), [c0] "r"(series[0]),
                           [c1] "r"(series[1]), [c2] "r"(series[2]), [c3] "r"(series[3]), [c4] "r"(series[4])
                         : "memory");
        n -= (int)(y - first);
        if (TL_SELDOM(n > 0)) {
            tl_silu_element(y++, slope++, x[-1]);
            n--;
        }
    }
}
#else
static inline void tl_silu_row(float *y, float *slope, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        tl_silu_element(y + i, slope + i, x[i]);
}
#endif
#endif
