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
/* Of v = x - less, which `load` makes: v log2(e) rounded to a whole k, and the rest r; a series of r times 2^k. */
#define TL_EXP_ROW(halfwords, load, series, store)                                                                     \
    TL_CURVE_BEGIN TL_LOOP("%[n]", halfwords) load "slli %[r], %[v], 1\nfmadd.s %[k], %[v], %[by], %[round]\n"         \
    "bgeu %[r], %[far], 1f\nfsub.s %[p], %[k], %[round]\nslli %[k], %[k], 23\nfmadd.s %[r], %[p], %[ln2], %[v]\n"      \
    series "fmadd.s %[p], %[p], %[r], %[one]\nfmadd.s %[p], %[p], %[r], %[one]\nadd %[p], %[p], %[k]\n" store          \
    TL_CURVE_END
#define TL_EXP_FLOATS                                                                                                  \
    TL_EXP_ROW("34", TL_LOAD("%[v]", "%[x]") "fadd.s %[v], %[v], %[less]\n", "fmadd.s %[r], %[p], %[low], %[r]\n"      \
               "fmadd.s %[p], %[e0], %[r], %[e1]\n" TL_EXP_TERM("2") TL_EXP_TERM("3") TL_EXP_TERM("4"),                \
               TL_STORE_ON("%[p]", "%[to]"))
#define TL_EXP_HALVES                                                                                                  \
    TL_EXP_ROW("32", TL_LOAD_HALF("%[r]", "%[x]") "mv %[v], %[less]\n" TL_DOT("%[v]", "%[r]", "%[pair]"),              \
               "fmadd.s %[p], %[e0], %[r], %[e1]\n" TL_EXP_TERM("2"),                                                  \
               TL_TO_HALF("%[p]", "%[p]") TL_STORE_HALF("%[p]", "%[to]"))
#define TL_CURVE_NUMBER(name, number) [name] "r"(number)
#define TL_EXP_WITH(...)                                                                                               \
    : [x] "+r"(x), [to] "+r"(to), [v] "=&r"(v), [k] "=&r"(k), [r] "=&r"(r), [p] "=&r"(p)                               \
    : [n] "r"(n), [less] "r"(-less), [far] "r"(2u * TL_EXP_NEAR), __VA_ARGS__                                          \
    : "memory"
#define TL_EXP_OF_FLOATS                                                                                               \
    TL_CURVE_NUMBER(e0, tl_number_(0, TL_EXP_SERIES)), TL_CURVE_NUMBER(e1, tl_number_(0, TL_EXP_SERIES + 1)),          \
    TL_CURVE_NUMBER(e2, tl_number_(0, TL_EXP_SERIES + 2)), TL_CURVE_NUMBER(e3, tl_number_(0, TL_EXP_SERIES + 3)),      \
    TL_CURVE_NUMBER(e4, tl_number_(0, TL_EXP_SERIES + 4)), TL_CURVE_NUMBER(by, tl_number_(0, TL_PER_LN2)),             \
    TL_CURVE_NUMBER(round, tl_number_(0, TL_ROUND)), TL_CURVE_NUMBER(ln2, tl_number_(0, TL_LN2)),                      \
    TL_CURVE_NUMBER(low, tl_number_(0, TL_LN2_LOW)), TL_CURVE_NUMBER(one, tl_number_(0, TL_ONE))
/* The pair that a half is multiplied by where it is added to a float: 1 and -0. */
#define TL_EXP_OF_HALVES                                                                                               \
    TL_CURVE_NUMBER(pair, 0x80003c00u), TL_CURVE_NUMBER(e0, tl_coarse_number_(0)),                                     \
    TL_CURVE_NUMBER(e1, tl_coarse_number_(1)), TL_CURVE_NUMBER(e2, tl_coarse_number_(2)),                              \
    TL_CURVE_NUMBER(one, tl_coarse_number_(3)), TL_CURVE_NUMBER(by, tl_coarse_number_(4)),                             \
    TL_CURVE_NUMBER(round, tl_coarse_number_(5)), TL_CURVE_NUMBER(ln2, tl_coarse_number_(6))

#define TL_PART(i) "fmadd.s %[p], %[p], %[u], %[p" i "]\n"
#define TL_DENSITY(i) "fmadd.s %[q], %[q], %[u], %[q" i "]\n"
/* Of x in h, near zero, with u = h h and the beginnings of both series: y in u, its slope in q. */
#define TL_GELU_SERIES(middle, last)                                                                                   \
    TL_PART("2") TL_DENSITY("2") TL_PART("3") TL_DENSITY("3") TL_PART("4") middle                                      \
    "fmadd.s %[p], %[p], %[h], %[half]\n" TL_DENSITY(last) "fmul.s %[u], %[h], %[p]\nfmadd.s %[q], %[h], %[q], %[p]\n"
#define TL_GELU_FIRST "fmadd.s %[p], %[p0], %[u], %[p1]\n"
#define TL_GELU_SECOND "fmadd.s %[q], %[q0], %[u], %[q1]\n"
/* The first one begins before the loop, and each other one in the turn of the one before it: one is read beyond the
 * end. */
#define TL_GELU_ROW(halfwords, load, turn)                                                                             \
    TL_CURVE_BEGIN load "slli %[p], %[h], 1\nfmul.s %[u], %[h], %[h]\nbgeu %[p], %[far], 1f\n"                         \
    TL_GELU_FIRST TL_GELU_SECOND TL_LOOP("%[t]", halfwords) turn TL_CURVE_END
#define TL_GELU_FLOATS                                                                                                 \
    TL_GELU_ROW("44", TL_LOAD("%[h]", "%[x]"),                                                                         \
        TL_GELU_SERIES(TL_DENSITY("4") TL_PART("5") TL_DENSITY("5") TL_PART("6") TL_DENSITY("6"), "7")                 \
        TL_LOAD("%[h]", "%[x]") TL_STORE_ON("%[u]", "%[to]") "fmul.s %[u], %[h], %[h]\nslli %[t], %[h], 1\n"           \
        TL_GELU_FIRST TL_STORE_ON("%[q]", "%[slope]") "bgeu %[t], %[far], 1f\n" TL_GELU_SECOND)
#define TL_GELU_HALVES                                                                                                 \
    TL_GELU_ROW("40", TL_LOAD_HALF("%[h]", "%[x]") TL_FROM_HALF("%[h]", "%[h]"),                                       \
        TL_LOAD_HALF("%[t]", "%[x]") TL_GELU_SERIES("", "4") TL_FROM_HALF("%[h]", "%[t]") "slli %[t], %[h], 1\n"       \
        TL_PACK("%[p]", "%[u]", "%[q]") TL_STORE_HALF("%[p]", "%[to]") "fmul.s %[u], %[h], %[h]\n"                     \
        "srli %[p], %[p], 16\n" TL_GELU_SECOND TL_STORE_HALF("%[p]", "%[slope]") "bgeu %[t], %[far], 1f\n"             \
        TL_GELU_FIRST)
#define TL_GELU_WITH(...)                                                                                              \
    : [x] "+r"(x), [to] "+r"(to), [slope] "+r"(slope), [t] "+r"(n), [h] "=&r"(h), [u] "=&r"(u), [p] "=&r"(p),          \
      [q] "=&r"(q)                                                                                                     \
    : [far] "r"(2u * TL_GAUSS_NEAR), __VA_ARGS__                                                                       \
    : "memory"
#define TL_GELU_OF_FLOATS                                                                                              \
    TL_CURVE_NUMBER(p0, tl_gauss_number_(0)), TL_CURVE_NUMBER(p1, tl_gauss_number_(1)),                                \
    TL_CURVE_NUMBER(p2, tl_gauss_number_(2)), TL_CURVE_NUMBER(p3, tl_gauss_number_(3)),                                \
    TL_CURVE_NUMBER(p4, tl_gauss_number_(4)), TL_CURVE_NUMBER(p5, tl_gauss_number_(5)),                                \
    TL_CURVE_NUMBER(p6, tl_gauss_number_(6)), TL_CURVE_NUMBER(half, tl_gauss_number_(7)),                              \
    TL_CURVE_NUMBER(q0, tl_gauss_number_(8)), TL_CURVE_NUMBER(q1, tl_gauss_number_(9)),                                \
    TL_CURVE_NUMBER(q2, tl_gauss_number_(10)), TL_CURVE_NUMBER(q3, tl_gauss_number_(11)),                              \
    TL_CURVE_NUMBER(q4, tl_gauss_number_(12)), TL_CURVE_NUMBER(q5, tl_gauss_number_(13)),                              \
    TL_CURVE_NUMBER(q6, tl_gauss_number_(14)), TL_CURVE_NUMBER(q7, tl_gauss_number_(15))
#define TL_COARSE(name, of, i) TL_CURVE_NUMBER(name, tl_coarse_number_(TL_COARSE_##of + i))
#define TL_GELU_OF_HALVES                                                                                              \
    TL_COARSE(p0, CDF, 0), TL_COARSE(p1, CDF, 1), TL_COARSE(p2, CDF, 2), TL_COARSE(p3, CDF, 3),                        \
    TL_COARSE(p4, CDF, 4), TL_COARSE(half, CDF, 5), TL_COARSE(q0, DENSITY, 0), TL_COARSE(q1, DENSITY, 1),              \
    TL_COARSE(q2, DENSITY, 2), TL_COARSE(q3, DENSITY, 3), TL_COARSE(q4, DENSITY, 4)
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
        __asm__ volatile(TL_EXP_FLOATS TL_EXP_WITH(TL_EXP_OF_FLOATS));
        if (to < end)
            *to++ = tl_exp_far_(x[-1] - less);
    }
}

/* to[i] = x[i] Phi(x[i]), and its derivative, for i < n; `to` or `slope` may be x. */
static inline void tl_gelu_row_f32(float *to, float *slope, const float *x, int n)
{
    for (float *const end = to + n; n > 0; n = (int)(end - to)) {
        float h, u, p, q;
        __asm__ volatile(TL_GELU_FLOATS TL_GELU_WITH(TL_GELU_OF_FLOATS));
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
        __asm__ volatile(TL_EXP_HALVES TL_EXP_WITH(TL_EXP_OF_HALVES));
        if (to < end)
            *to++ = tl_to_half(tl_exp_far_(tl_from_half(x[-1]) - less));
    }
}

static inline void tl_gelu_row_f16(tl_half *to, tl_half *slope, const tl_half *x, int n)
{
    for (tl_half *const end = to + n; n > 0; n = (int)(end - to)) {
        float h, u, p, q;
        __asm__ volatile(TL_GELU_HALVES TL_GELU_WITH(TL_GELU_OF_HALVES));
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
        to[i] = tl_to_half(tl_coarse_expf(tl_from_half(x[i]) - less));
}

static inline void tl_gelu_row_f16(tl_half *to, tl_half *slope, const tl_half *x, int n)
{
    for (int i = 0; i < n; i++) {
        const float at = tl_from_half(x[i]), part = tl_coarse_gauss_cdff(at);
        to[i] = tl_to_half(at * part);
        slope[i] = tl_to_half(tl_fmaf(at, tl_coarse_gauss_densityf(at), part));
    }
}
#endif
#endif
