/* A multiple of a row added to another, that of a product with a number, and several rows of such: what generated loops
 * of such a body call. */
#ifndef TL_SCALED_H
#define TL_SCALED_H
#include "tl_hal.h"
#include "tl_xpulp.h"

#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
/* clang-format off */
#define TL_FOURS(halfwords, body)                                                                                      \
    ".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", halfwords) body ".option pop\n"
#define TL_NEXT_X(to) TL_LOAD("%[" to "]", "%[x]")
#define TL_NEXT_Y(to) TL_LOAD("%[" to "]", "%[y]")
#define TL_TIMES(x) "fmadd.s %[" x "], %[r], %[" x "], zero\n"
#define TL_ONTO_Y(y, x) "fmadd.s %[" y "], %[s], %[" x "], %[" y "]\n"
#define TL_PUT(y) TL_STORE_ON("%[" y "]", "%[to]")
#define TL_FOUR_SCALED                                                                                                 \
    TL_NEXT_X("a") TL_NEXT_Y("c") TL_NEXT_X("b") TL_ONTO_Y("c", "a") TL_NEXT_Y("d") TL_NEXT_X("a") TL_ONTO_Y("d", "b") \
    TL_NEXT_Y("e") TL_NEXT_X("b") TL_ONTO_Y("e", "a") TL_NEXT_Y("f") TL_PUT("c") TL_ONTO_Y("f", "b")                   \
    TL_PUT("d") TL_PUT("e") TL_PUT("f")
#define TL_FOUR_PRODUCTS                                                                                               \
    TL_NEXT_X("a") TL_NEXT_Y("c") TL_NEXT_X("b") TL_TIMES("a") TL_NEXT_Y("d") TL_TIMES("b") TL_ONTO_Y("c", "a")        \
    TL_NEXT_X("a") TL_ONTO_Y("d", "b") TL_NEXT_X("b") TL_TIMES("a") TL_NEXT_Y("e") TL_TIMES("b") TL_NEXT_Y("f")        \
    TL_ONTO_Y("e", "a") TL_PUT("c") TL_ONTO_Y("f", "b") TL_PUT("d") TL_PUT("e") TL_PUT("f")
/* A column of five rows: y of each, times x and its number. */
#define TL_FIVE_TIMES(t, i) "fmadd.s %[" t "], %[r" i "], %[p], zero\n"
#define TL_FIVE_ONTO(y, t) "fmadd.s %[" y "], %[s], %[" t "], %[" y "]\n"
#define TL_FIVE_GET(y, i) TL_LOAD("%[" y "]", "%[y" i "]")
#define TL_FIVE_PUT(y, i) "sw %[" y "], -4(%[y" i "])\n"
#define TL_FIVE_ROWS                                                                                                   \
    TL_FIVE_TIMES("t", "0") TL_FIVE_GET("a", "0") TL_FIVE_TIMES("u", "1") TL_FIVE_GET("b", "1") TL_FIVE_ONTO("a", "t") \
    TL_FIVE_GET("c", "2") TL_FIVE_TIMES("t", "2") TL_FIVE_PUT("a", "0") TL_FIVE_ONTO("b", "u") TL_FIVE_GET("a", "3")   \
    TL_FIVE_TIMES("u", "3") TL_FIVE_PUT("b", "1") TL_FIVE_ONTO("c", "t") "lw %[b], 0(%[y4])\n"                         \
    TL_FIVE_TIMES("t", "4") TL_FIVE_PUT("c", "2") TL_FIVE_ONTO("a", "u") TL_LOAD("%[p]", "%[x]")                       \
    TL_FIVE_ONTO("b", "t") TL_FIVE_PUT("a", "3") TL_STORE_ON("%[b]", "%[y4]")
/* clang-format on */

/* y[i][j] += s (r[i] x[j] + 0) for five rows, at least one column; it reads x[columns], too. */
static inline void tl_add_five(float *y, int pitch, const float *x, const float *r, float s, int columns)
{
    float *y0 = y, *y1 = y0 + pitch, *y2 = y1 + pitch, *y3 = y2 + pitch, *y4 = y3 + pitch;
    float p = *x++, t, u, a, b, c;
    __asm__ volatile(
        ".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", "42") TL_FIVE_ROWS ".option pop\n"
        : [y0] "+r"(y0), [y1] "+r"(y1), [y2] "+r"(y2), [y3] "+r"(y3), [y4] "+r"(y4), [x] "+r"(x), [p] "+r"(p),
          [t] "=&r"(t), [u] "=&r"(u), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c)
        : [r0] "r"(r[0]), [r1] "r"(r[1]), [r2] "r"(r[2]), [r3] "r"(r[3]), [r4] "r"(r[4]), [s] "r"(s), [n] "r"(columns)
        : "memory");
}
#define TL_FIVE_AT_A_TIME

/* Four elements at a time, at least once; a literal says whether x is multiplied by r first. */
static inline __attribute__((always_inline)) void tl_add_fours(float **to, const float **y, const float **x, float r,
                                                               float s, int fours, int product)
{
    float a, b, c, d, e, f;
#define TL_OPERANDS                                                                                                    \
    [to] "+r"(*to), [y] "+r"(*y), [x] "+r"(*x), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [e] "=&r"(e),  \
        [f] "=&r"(f)
    if (product)
        __asm__ volatile(TL_FOURS("40", TL_FOUR_PRODUCTS)
                         : TL_OPERANDS
                         : [r] "r"(r), [s] "r"(s), [n] "r"(fours)
                         : "memory");
    else
        __asm__ volatile(TL_FOURS("32", TL_FOUR_SCALED) : TL_OPERANDS : [s] "r"(s), [n] "r"(fours) : "memory");
}
#else
static inline __attribute__((always_inline)) void tl_add_fours(float **to, const float **y, const float **x, float r,
                                                               float s, int fours, int product)
{
    for (; fours > 0; fours--, *to += 4, *y += 4, *x += 4) {
        const float *p = *x, *q = *y;
        const float a = product ? __builtin_fmaf(r, p[0], 0.0f) : p[0],
                    b = product ? __builtin_fmaf(r, p[1], 0.0f) : p[1];
        const float c = product ? __builtin_fmaf(r, p[2], 0.0f) : p[2],
                    d = product ? __builtin_fmaf(r, p[3], 0.0f) : p[3];
        const float e = __builtin_fmaf(s, a, q[0]), f = __builtin_fmaf(s, b, q[1]);
        const float g = __builtin_fmaf(s, c, q[2]), h = __builtin_fmaf(s, d, q[3]);
        (*to)[0] = e, (*to)[1] = f, (*to)[2] = g, (*to)[3] = h;
    }
}
#endif

/* to[i] = s x[i] + y[i] for i < n; `to` may be y. */
static inline void tl_add_scaled(float *to, const float *y, const float *x, float s, int n)
{
    if (n >= 4)
        tl_add_fours(&to, &y, &x, 0.0f, s, n / 4, 0);
    for (int i = 0; i < n % 4; i++)
        to[i] = __builtin_fmaf(s, x[i], y[i]);
}

/* to[i] = s (r x[i] + 0) + y[i] */
static inline void tl_add_product(float *to, const float *y, const float *x, float r, float s, int n)
{
    if (n >= 4)
        tl_add_fours(&to, &y, &x, r, s, n / 4, 1);
    for (int i = 0; i < n % 4; i++)
        to[i] = __builtin_fmaf(s, __builtin_fmaf(r, x[i], 0.0f), y[i]);
}

/* to[i][j] = s (r[i] x[j] + 0) + y[i][j], by all cores; rows lie so far apart, and `to` may be y. */
static inline void tl_add_products(float *to, const float *y, int pitch, const float *x, const float *r, float s,
                                   int rows, int columns)
{
    int lo, hi;
    tl_split(columns, 1, &lo, &hi);
#ifdef TL_FIVE_AT_A_TIME
    for (; rows >= 5 && to == y && lo < hi; rows -= 5, r += 5, to += 5 * pitch, y += 5 * pitch)
        tl_add_five(to + lo, pitch, x + lo, r, s, hi - lo);
#endif
    for (; rows > 0; --rows, ++r, to += pitch, y += pitch)
        tl_add_product(to + lo, y + lo, x + lo, *r, s, hi - lo);
}
#endif
