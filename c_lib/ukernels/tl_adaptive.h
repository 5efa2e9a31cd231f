/* Adam's and RMSprop's updates of a row of parameters: what generated loops of such bodies call. Two cores share a
 * float unit, so where a core can it has something else to do between two of its float instructions. */
#ifndef TL_ADAPTIVE_H
#define TL_ADAPTIVE_H
#include "tl_divide.h"
#include "tl_xpulp.h"

typedef struct {
    float *to_w, *to_m, *to_v; /* may be w, m and v */
    const float *w, *g, *m, *v;
    float rate, keep, first, second, more; /* `keep`: of each parameter, where it decays */
} tl_adaptive;

#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
/* clang-format off */
#define TL_ADAPTIVE_SET                                                                                                \
    "lw t0, 0(%[a])\nlw t1, 4(%[a])\nlw t2, 8(%[a])\nlw t3, 12(%[a])\nlw t4, 16(%[a])\nlw t5, 20(%[a])\n"              \
    "lw t6, 24(%[a])\nlw s2, 28(%[a])\nlw s3, 32(%[a])\nlw s4, 36(%[a])\nlw s5, 40(%[a])\nlw s6, 44(%[a])\n"           \
    "lui s9, 0x3f902\nlui s10, 0x3f81c\nlui s11, 0x5f131\nfneg.s s2, s2\n"
/* tl_inverse_rootf in its order, of the new v in a4, to a7; g is in a0. Behind the loop, of roots that are not far
 * above `more` and of what is no number. `p0` to `p3`: what else is to be done, `last`: behind. */
#define TL_ADAPTIVE_ROW(halfwords, p0, p1, p2, p3, last)                                                               \
    TL_ADAPTIVE_SET "lui s8, 0x3f000\nlui ra, 0x4b800\n"                                                               \
    "fmul.s %[a], s6, s6\nfmul.s ra, %[a], ra\nlui %[a], 0x7f800\nsub %[a], %[a], ra\n"                                \
    "mv s1, %[n]\nlui %[n], 0x800\n.balign 4\n.option push\n.option norvc\n" TL_LOOP("s1", halfwords)                  \
    TL_LOAD("a4", "t6") TL_LOAD("a0", "t4") p0 "fmsub.s a6, a0, a0, a4\nfmadd.s a4, a6, s5, a4\nsrli s1, a4, 1\n" p1   \
    "sub a7, s11, s1\nfmul.s a6, a4, a7\nsub s1, a4, ra\nfnmsub.s a5, a6, a7, s9\nbgeu s1, %[a], 2f\n"                 \
    "fmadd.s a5, a5, a5, s10\n" TL_STORE_ON("a4", "t2") "fmul.s a7, a7, a5\nsub a6, a7, %[n]\n"                        \
    "fmadd.s a6, a4, a6, s6\n" p2 "fnmsub.s a6, a6, a7, s8\n" p3 "fmadd.s a7, a6, a7, a7\n1:\n" last "j 4f\n"          \
    "2:\nfmadd.s a5, a5, a5, s10\n" TL_STORE_ON("a4", "t2") "fmul.s a7, a7, a5\nlui s1, 0x7ef32\nbgeu a4, s1, 3f\n"    \
    "fmul.s a6, a6, a5\nsub a5, a7, %[n]\nlui a7, 0x3fc00\nfnmsub.s a5, a6, a5, a7\nfmadd.s a6, a5, a6, s6\n"          \
    "sub a7, s1, a6\nlui s1, 0x3fc02\n"                                                                                \
    "fnmsub.s a5, a6, a7, s1\nlui s1, 0x3f3fc\nfmadd.s a5, a5, a5, s1\nlui s1, 0x3f800\nfmul.s a7, a7, a5\n"           \
    "fnmsub.s s1, a6, a7, s1\nfmadd.s a7, s1, a7, a7\n" p2 p3 "j 1b\n"                                                 \
    "3:\nfsqrt.s a7, a4\nfadd.s a7, a7, s6\nlui s1, 0x3f800\nfdiv.s a7, s1, a7\n" p2 p3 "j 1b\n4:\n.option pop\n"
/* tl_inverse_root_nearf likewise. The old w is for a4; behind the loop, of what is no number. */
#define TL_ADAPTIVE_NEAR_ROW(halfwords, p0, p1, p2, p3, last)                                                          \
    TL_ADAPTIVE_SET "lui s7, 0x800\nlui s8, 0x3fc00\nlui ra, 0x7ef32\nlui %[a], 0x3fc02\nlui a5, 0x3f800\n"            \
    "mv s1, %[n]\nlui %[n], 0x3f3fc\n.balign 4\n.option push\n.option norvc\n" TL_LOOP("s1", halfwords)                \
    TL_LOAD("a4", "t6") TL_LOAD("a0", "t4") p0 "fmsub.s a6, a0, a0, a4\nfmadd.s a4, a6, s5, a4\nsrli s1, a4, 1\n" p1   \
    "sub a7, s11, s1\nfmul.s a6, a4, a7\n" TL_STORE_ON("a4", "t2") "fnmsub.s s1, a6, a7, s9\nbgeu a4, ra, 2f\n"        \
    "fmadd.s s1, s1, s1, s10\n" TL_LOAD("a4", "t3") "fmul.s a7, a7, s1\nfmul.s a6, a6, s1\nsub s1, a7, s7\n"           \
    "fnmsub.s s1, a6, s1, s8\nfmadd.s a6, s1, a6, s6\nsub a7, ra, a6\nfnmsub.s s1, a6, a7, %[a]\n" p2                  \
    "fmadd.s s1, s1, s1, %[n]\nfmul.s a7, a7, s1\nfnmsub.s s1, a6, a7, a5\n" p3 "fmadd.s a7, s1, a7, a7\n1:\n" last    \
    "j 3f\n2:\nfsqrt.s a7, a4\nfadd.s a7, a7, s6\nfdiv.s a7, a5, a7\n" TL_LOAD("a4", "t3") p2 p3 "j 1b\n"              \
    "3:\n.option pop\n"
#define TL_ADAM_ROW(halfwords, keep)                                                                                   \
    TL_ADAPTIVE_ROW(halfwords, TL_LOAD("a1", "t5"), "fsub.s a0, a0, a1\n", TL_LOAD("a5", "t3"),                        \
                    "fmadd.s a1, a0, s4, a1\n" TL_STORE_ON("a1", "t1") keep,                                           \
                    "fmul.s a7, a1, a7\nfmadd.s a5, s2, a7, a5\n" TL_STORE_ON("a5", "t0"))
#define TL_ADAM_NEAR_ROW(halfwords, keep)                                                                              \
    TL_ADAPTIVE_NEAR_ROW(halfwords, TL_LOAD("a1", "t5"), "fsub.s a0, a0, a1\n",                                        \
                         "fmadd.s a1, a0, s4, a1\n" TL_STORE_ON("a1", "t1"), keep,                                     \
                         "fmul.s a7, a1, a7\nfmadd.s a4, s2, a7, a4\n" TL_STORE_ON("a4", "t0"))
#define TL_RMSPROP_ROW                                                                                                 \
    TL_ADAPTIVE_ROW("42", TL_LOAD("a1", "t3"), , , ,                                                                   \
                    "fmul.s a7, a0, a7\nfmadd.s a1, s2, a7, a1\n" TL_STORE_ON("a1", "t0"))
#define TL_RMSPROP_NEAR_ROW                                                                                            \
    TL_ADAPTIVE_NEAR_ROW("52", , , , , "fmul.s a7, a0, a7\nfmadd.s a4, s2, a7, a4\n" TL_STORE_ON("a4", "t0"))
#define TL_MOMENTUM_ROW                                                                                                \
    TL_ADAPTIVE_ROW("48", TL_LOAD("a1", "t3"), , TL_LOAD("a5", "t5"), ,                                                \
                    "fmul.s a7, a0, a7\nfmadd.s a5, a5, s4, a7\n" TL_STORE_ON("a5", "t1")                              \
                    "fmadd.s a1, s2, a5, a1\n" TL_STORE_ON("a1", "t0"))
#define TL_MOMENTUM_NEAR_ROW                                                                                           \
    TL_ADAPTIVE_NEAR_ROW("58", , , TL_LOAD("a1", "t5"), ,                                                              \
                         "fmul.s a7, a0, a7\nfmadd.s a1, a1, s4, a7\n" TL_STORE_ON("a1", "t1")                         \
                         "fmadd.s a4, s2, a1, a4\n" TL_STORE_ON("a4", "t0"))
/* clang-format on */
#define TL_ADAPTIVE(row)                                                                                               \
    __asm__ volatile(row                                                                                               \
                     : [a] "+r"(a), [n] "+r"(n)                                                                        \
                     :                                                                                                 \
                     : "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5", "s6",   \
                       "s7", "s8", "s9", "s10", "s11", "a0", "a1", "a4", "a5", "a6", "a7")

/* For n parameters; literals say whether they decay, and whether most roots are near `more` or below. */
static inline void tl_adam_row(const tl_adaptive *a, int decays, int near, int n)
{
    if (n <= 0)
        return;
    if (near && decays)
        TL_ADAPTIVE(TL_ADAM_NEAR_ROW("62", "fmul.s a4, a4, s3\n"));
    else if (near)
        TL_ADAPTIVE(TL_ADAM_NEAR_ROW("60", ""));
    else if (decays)
        TL_ADAPTIVE(TL_ADAM_ROW("52", "fmul.s a5, a5, s3\n"));
    else
        TL_ADAPTIVE(TL_ADAM_ROW("50", ""));
}

/* The same; a literal says whether there is a momentum, of which `first` stays in m. */
static inline void tl_rmsprop_row(const tl_adaptive *a, int momentum, int near, int n)
{
    if (n <= 0)
        return;
    if (near && momentum)
        TL_ADAPTIVE(TL_MOMENTUM_NEAR_ROW);
    else if (near)
        TL_ADAPTIVE(TL_RMSPROP_NEAR_ROW);
    else if (momentum)
        TL_ADAPTIVE(TL_MOMENTUM_ROW);
    else
        TL_ADAPTIVE(TL_RMSPROP_ROW);
}
#else
static inline float tl_mean_square(float v, float g, float second)
{
    return tl_fmaf(tl_fmaf(g, g, -v), second, v);
}

static inline void tl_adam_row(const tl_adaptive *a, int decays, int near, int n)
{
    const tl_adaptive row = *a;
    for (int i = 0; i < n; i++) {
        const float g = row.g[i], m = row.m[i], w = decays ? row.w[i] * row.keep : row.w[i];
        const float square = tl_mean_square(row.v[i], g, row.second), average = tl_fmaf(g - m, row.first, m);
        const float inverse = near ? tl_inverse_root_nearf(square, row.more) : tl_inverse_rootf(square, row.more);
        row.to_w[i] = tl_fmaf(-row.rate, average * inverse, w);
        row.to_m[i] = average;
        row.to_v[i] = square;
    }
}

static inline void tl_rmsprop_row(const tl_adaptive *a, int momentum, int near, int n)
{
    const tl_adaptive row = *a;
    for (int i = 0; i < n; i++) {
        const float g = row.g[i], w = row.w[i], square = tl_mean_square(row.v[i], g, row.second);
        const float inverse = near ? tl_inverse_root_nearf(square, row.more) : tl_inverse_rootf(square, row.more);
        const float alone = g * inverse, direction = momentum ? tl_fmaf(row.m[i], row.first, alone) : alone;
        row.to_w[i] = tl_fmaf(-row.rate, direction, w);
        if (momentum)
            row.to_m[i] = direction;
        row.to_v[i] = square;
    }
}
#endif
#endif
