/* Rows of exponentials, and of GELUs with their slopes: what generated loops of such bodies call. Near zero both are
 * polynomials, which a hardware loop goes through in a fixed order, so that what loads, stores and compares stands
 * between float instructions: two cores share a float unit. It ends in front of an element that is far from zero. */
#ifndef TL_CURVES_H
#define TL_CURVES_H
#include "tl_half.h"
#include "tl_math.h"
#include "tl_xpulp.h"

#if (defined(TL_XPULP) || defined(TL_XF16AUXVEC)) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
/* clang-format off */
#define TL_CURVE_BEGIN ".balign 4\n.option push\n.option norvc\n"
#define TL_CURVE_END "1:\n.option pop\n"
#define TL_EXP_TERM(i) "fmadd.s %[p], %[p], %[r], %[e" i "]\n"
/* Of v = x - less, which `load` makes: v log2(e) rounded to a whole k, and the rest r; p of r times 2^k. */
#define TL_EXP_ROW(halfwords, load, store)                                                                             \
    TL_CURVE_BEGIN TL_LOOP("%[n]", halfwords) load "slli %[r], %[v], 1\nfmadd.s %[k], %[v], %[e5], %[e6]\n"            \
    "bgeu %[r], %[far], 1f\nfsub.s %[p], %[k], %[e6]\nslli %[k], %[k], 23\nfmadd.s %[r], %[p], %[e7], %[v]\n"          \
    "fmadd.s %[r], %[p], %[e8], %[r]\nfmadd.s %[p], %[e0], %[r], %[e1]\n" TL_EXP_TERM("2") TL_EXP_TERM("3")            \
    TL_EXP_TERM("4") TL_EXP_TERM("9") TL_EXP_TERM("9") "add %[p], %[p], %[k]\n" store TL_CURVE_END
#define TL_EXP_FLOATS TL_LOAD("%[v]", "%[x]") "fadd.s %[v], %[v], %[less]\n"
#define TL_EXP_HALVES TL_LOAD_HALF("%[r]", "%[x]") "mv %[v], %[less]\n" TL_DOT("%[v]", "%[r]", "%[one]")
#define TL_EXP_WITH(...)                                                                                               \
    : [x] "+r"(x), [to] "+r"(to), [v] "=&r"(v), [k] "=&r"(k), [r] "=&r"(r), [p] "=&r"(p)                               \
    : [n] "r"(n), [less] "r"(-less), [far] "r"(2u * TL_EXP_NEAR), [e0] "r"(tl_number_(0, TL_EXP_SERIES)),              \
      [e1] "r"(tl_number_(0, TL_EXP_SERIES + 1)), [e2] "r"(tl_number_(0, TL_EXP_SERIES + 2)),                          \
      [e3] "r"(tl_number_(0, TL_EXP_SERIES + 3)), [e4] "r"(tl_number_(0, TL_EXP_SERIES + 4)),                          \
      [e5] "r"(tl_number_(0, TL_PER_LN2)), [e6] "r"(tl_number_(0, TL_ROUND)), [e7] "r"(tl_number_(0, TL_LN2)),         \
      [e8] "r"(tl_number_(0, TL_LN2_LOW)), [e9] "r"(tl_number_(0, TL_ONE)) __VA_ARGS__                                 \
    : "memory"
#define TL_PART(i) "fmadd.s %[p], %[p], %[u], %[p" i "]\n"
#define TL_DENSITY(i) "fmadd.s %[q], %[q], %[u], %[q" i "]\n"
/* Of x in h, near zero, with u = h h and the beginnings of both series: y in u, its slope in q. */
#define TL_GELU_SERIES                                                                                                 \
    TL_PART("2") TL_DENSITY("2") TL_PART("3") TL_DENSITY("3") TL_PART("4") TL_DENSITY("4") TL_PART("5")                \
    TL_DENSITY("5") TL_PART("6") TL_DENSITY("6") "fmadd.s %[p], %[p], %[h], %[p7]\n" TL_DENSITY("7")                   \
    "fmul.s %[u], %[h], %[p]\nfmadd.s %[q], %[h], %[q], %[p]\n"
#define TL_GELU_FIRST "fmadd.s %[p], %[p0], %[u], %[p1]\n"
#define TL_GELU_SECOND "fmadd.s %[q], %[q0], %[u], %[q1]\n"
/* The first one begins before the loop, and each other one in the turn of the one before it: one is read beyond the
 * end. */
#define TL_GELU_ROW(halfwords, load, turn)                                                                             \
    TL_CURVE_BEGIN load "slli %[p], %[h], 1\nfmul.s %[u], %[h], %[h]\nbgeu %[p], %[far], 1f\n"                         \
    TL_GELU_FIRST TL_GELU_SECOND TL_LOOP("%[t]", halfwords) turn TL_CURVE_END
#define TL_GELU_FLOATS                                                                                                 \
    TL_GELU_SERIES TL_LOAD("%[h]", "%[x]") TL_STORE_ON("%[u]", "%[to]") "fmul.s %[u], %[h], %[h]\n"                    \
    "slli %[t], %[h], 1\n" TL_GELU_FIRST TL_STORE_ON("%[q]", "%[slope]") "bgeu %[t], %[far], 1f\n" TL_GELU_SECOND
#define TL_GELU_HALVES                                                                                                 \
    TL_LOAD_HALF("%[t]", "%[x]") TL_GELU_SERIES TL_FROM_HALF("%[h]", "%[t]") "slli %[t], %[h], 1\n"                    \
    TL_PACK("%[p]", "%[u]", "%[q]") TL_STORE_HALF("%[p]", "%[to]") "fmul.s %[u], %[h], %[h]\nsrli %[p], %[p], 16\n"    \
    TL_GELU_SECOND TL_STORE_HALF("%[p]", "%[slope]") "bgeu %[t], %[far], 1f\n" TL_GELU_FIRST
#define TL_GELU_NUMBER(name, i) [name] "r"(tl_gauss_number_(i))
#define TL_GELU_WITH                                                                                                   \
    : [x] "+r"(x), [to] "+r"(to), [slope] "+r"(slope), [t] "+r"(n), [h] "=&r"(h), [u] "=&r"(u), [p] "=&r"(p),          \
      [q] "=&r"(q)                                                                                                     \
    : [far] "r"(2u * TL_GAUSS_NEAR), TL_GELU_NUMBER(p0, 0), TL_GELU_NUMBER(p1, 1), TL_GELU_NUMBER(p2, 2),              \
      TL_GELU_NUMBER(p3, 3), TL_GELU_NUMBER(p4, 4), TL_GELU_NUMBER(p5, 5), TL_GELU_NUMBER(p6, 6),                      \
      TL_GELU_NUMBER(p7, 7), TL_GELU_NUMBER(q0, 8), TL_GELU_NUMBER(q1, 9), TL_GELU_NUMBER(q2, 10),                     \
      TL_GELU_NUMBER(q3, 11), TL_GELU_NUMBER(q4, 12), TL_GELU_NUMBER(q5, 13), TL_GELU_NUMBER(q6, 14),                  \
      TL_GELU_NUMBER(q7, 15)                                                                                           \
    : "memory"
/* clang-format on */

/* Phi(x) x, and its derivative, where x is far from zero. */
static inline void tl_gelu_far_(float x, float *y, float *slope)
{
    const float part = tl_gauss_cdf_far_(x);
    *y = x * part;
    *slope = tl_fmaf(x, tl_gauss_density_far_(x), part);
}

#ifdef TL_XPULP
/* to[i] = e^(x[i] - less) for i < n; `to` may be x. */
static inline void tl_exp_row_f32(float *to, const float *x, float less, int n)
{
    for (float *const end = to + n; n > 0; n = (int)(end - to)) {
        float v, k, r, p;
        __asm__ volatile(TL_EXP_ROW("34", TL_EXP_FLOATS, TL_STORE_ON("%[p]", "%[to]")) TL_EXP_WITH());
        if (to < end)
            *to++ = tl_exp_far_(x[-1] - less);
    }
}

/* to[i] = x[i] Phi(x[i]), and its derivative, for i < n; `to` or `slope` may be x. */
static inline void tl_gelu_row_f32(float *to, float *slope, const float *x, int n)
{
    for (float *const end = to + n; n > 0; n = (int)(end - to)) {
        float h, u, p, q;
        __asm__ volatile(TL_GELU_ROW("44", TL_LOAD("%[h]", "%[x]"), TL_GELU_FLOATS) TL_GELU_WITH);
        if (to < end)
            tl_gelu_far_(x[-1], to++, slope++);
    }
}
#define TL_ROWS_OF_FLOATS
#endif

#ifdef TL_XF16AUXVEC
static inline void tl_exp_row_f16(tl_half *to, const tl_half *x, float less, int n)
{
    for (tl_half *const end = to + n; n > 0; n = (int)(end - to)) {
        float v, k, r, p;
        __asm__ volatile(TL_EXP_ROW("38", TL_EXP_HALVES, TL_TO_HALF("%[p]", "%[p]") TL_STORE_HALF("%[p]", "%[to]"))
                             TL_EXP_WITH(, [one] "r"(0x80003c00u)));
        if (to < end)
            *to++ = tl_to_half(tl_exp_far_(tl_from_half(x[-1]) - less));
    }
}

static inline void tl_gelu_row_f16(tl_half *to, tl_half *slope, const tl_half *x, int n)
{
    for (tl_half *const end = to + n; n > 0; n = (int)(end - to)) {
        float h, u, p, q;
        __asm__ volatile(TL_GELU_ROW("50", TL_LOAD_HALF("%[h]", "%[x]") TL_FROM_HALF("%[h]", "%[h]"), TL_GELU_HALVES)
                             TL_GELU_WITH);
        if (to < end) {
            tl_gelu_far_(tl_from_half(x[-1]), &u, &q);
            *to++ = tl_to_half(u), *slope++ = tl_to_half(q);
        }
    }
}
#define TL_ROWS_OF_HALVES
#endif
#endif

#ifndef TL_ROWS_OF_FLOATS
static inline void tl_exp_row_f32(float *to, const float *x, float less, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = tl_expf(x[i] - less);
}

static inline void tl_gelu_row_f32(float *to, float *slope, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        const float at = x[i], part = tl_gauss_cdff(at);
        to[i] = at * part;
        slope[i] = tl_fmaf(at, tl_gauss_densityf(at), part);
    }
}
#endif

#ifndef TL_ROWS_OF_HALVES
static inline void tl_exp_row_f16(tl_half *to, const tl_half *x, float less, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = tl_to_half(tl_expf(tl_from_half(x[i]) - less));
}

static inline void tl_gelu_row_f16(tl_half *to, tl_half *slope, const tl_half *x, int n)
{
    for (int i = 0; i < n; i++) {
        const float at = tl_from_half(x[i]), part = tl_gauss_cdff(at);
        to[i] = tl_to_half(at * part);
        slope[i] = tl_to_half(tl_fmaf(at, tl_gauss_densityf(at), part));
    }
}
#endif
#endif
