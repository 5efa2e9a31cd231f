/* A multiple of a row added to another, and to several rows, to each by a number of its own: what generated loops of
 * such a body call. */
#ifndef TL_SCALED_H
#define TL_SCALED_H
#include "tl_hal.h"
#include "tl_half.h"
#include "tl_xpulp.h"

#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
/* clang-format off */
#define TL_FOURS(halfwords, body)                                                                                      \
    ".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", halfwords) body ".option pop\n"
#define TL_NEXT_X(to) TL_LOAD("%[" to "]", "%[x]")
#define TL_NEXT_Y(to) TL_LOAD("%[" to "]", "%[y]")
#define TL_ONTO_Y(y, x) "fmadd.s %[" y "], %[s], %[" x "], %[" y "]\n"
#define TL_PUT(y) TL_STORE_ON("%[" y "]", "%[to]")
#define TL_FOUR_SCALED                                                                                                 \
    TL_NEXT_X("a") TL_NEXT_Y("c") TL_NEXT_X("b") TL_ONTO_Y("c", "a") TL_NEXT_Y("d") TL_NEXT_X("a") TL_ONTO_Y("d", "b") \
    TL_NEXT_Y("e") TL_NEXT_X("b") TL_ONTO_Y("e", "a") TL_NEXT_Y("f") TL_PUT("c") TL_ONTO_Y("f", "b")                   \
    TL_PUT("d") TL_PUT("e") TL_PUT("f")
/* A column of five rows: a multiple of x added to y of each, and the next x, of floats or halves. */
#define TL_FIVE_ONTO(y, i) "fmadd.s %[" y "], %[s" i "], %[p], %[" y "]\n"
#define TL_FIVE_GET(y, i) TL_LOAD("%[" y "]", "%[y" i "]")
#define TL_FIVE_PUT(y, i) "sw %[" y "], -4(%[y" i "])\n"
#define TL_FIVE_ROWS(begin, next)                                                                                      \
    begin                                                                                                              \
    TL_FIVE_GET("a", "0") TL_FIVE_GET("b", "1") TL_FIVE_ONTO("a", "0") TL_FIVE_GET("c", "2") TL_FIVE_ONTO("b", "1")    \
    TL_FIVE_PUT("a", "0") TL_FIVE_GET("a", "3") TL_FIVE_ONTO("c", "2") TL_FIVE_PUT("b", "1") "lw %[b], 0(%[y4])\n"     \
    TL_FIVE_ONTO("a", "3") TL_FIVE_PUT("c", "2") TL_FIVE_ONTO("b", "4") next TL_FIVE_PUT("a", "3")                     \
    TL_STORE_ON("%[b]", "%[y4]")
#define TL_FIVE(halfwords, begin, next)                                                                                \
    ".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", halfwords) TL_FIVE_ROWS(begin, next) ".option pop\n"
/* clang-format on */

/* y[i][j] += s[i] x[j] for five rows, at least one column; it reads x[columns], too. */
static inline void tl_add_five(float *y, int pitch, const float *x, const float *s, int columns)
{
    float *y0 = y, *y1 = y0 + pitch, *y2 = y1 + pitch, *y3 = y2 + pitch, *y4 = y3 + pitch;
    float p = *x++, a, b, c;
    __asm__ volatile(TL_FIVE("32", "", TL_LOAD("%[p]", "%[x]"))
                     : [y0] "+r"(y0), [y1] "+r"(y1), [y2] "+r"(y2), [y3] "+r"(y3), [y4] "+r"(y4), [x] "+r"(x),
                       [p] "+r"(p), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c)
                     : [s0] "r"(s[0]), [s1] "r"(s[1]), [s2] "r"(s[2]), [s3] "r"(s[3]), [s4] "r"(s[4]), [n] "r"(columns)
                     : "memory");
}
#define TL_FIVE_AT_A_TIME

/* Four elements at a time, at least once. */
static inline __attribute__((always_inline)) void tl_add_fours(float **to, const float **y, const float **x, float s,
                                                               int fours)
{
    float a, b, c, d, e, f;
    __asm__ volatile(TL_FOURS("32", TL_FOUR_SCALED)
                     : [to] "+r"(*to), [y] "+r"(*y), [x] "+r"(*x), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),
                       [d] "=&r"(d), [e] "=&r"(e), [f] "=&r"(f)
                     : [s] "r"(s), [n] "r"(fours)
                     : "memory");
}
#else
static inline __attribute__((always_inline)) void tl_add_fours(float **to, const float **y, const float **x, float s,
                                                               int fours)
{
    for (; fours > 0; fours--, *to += 4, *y += 4, *x += 4) {
        const float *p = *x, *q = *y;
        const float a = __builtin_fmaf(s, p[0], q[0]), b = __builtin_fmaf(s, p[1], q[1]);
        const float c = __builtin_fmaf(s, p[2], q[2]), d = __builtin_fmaf(s, p[3], q[3]);
        (*to)[0] = a, (*to)[1] = b, (*to)[2] = c, (*to)[3] = d;
    }
}
#endif

/* to[i] = s x[i] + y[i] for i < n; `to` may be y. */
static inline void tl_add_scaled(float *to, const float *y, const float *x, float s, int n)
{
    if (n >= 4)
        tl_add_fours(&to, &y, &x, s, n / 4);
    for (int i = 0; i < n % 4; i++)
        to[i] = __builtin_fmaf(s, x[i], y[i]);
}

/* The same of halves. */
static inline void tl_add_scaled_halves(float *to, const float *y, const tl_half *x, float s, int n)
{
    for (; n >= 4; n -= 4, to += 4, y += 4, x += 4) {
        const float p = tl_from_half(x[0]), q = tl_from_half(x[1]), r = tl_from_half(x[2]), t = tl_from_half(x[3]);
        const float a = __builtin_fmaf(s, p, y[0]), b = __builtin_fmaf(s, q, y[1]);
        const float c = __builtin_fmaf(s, r, y[2]), d = __builtin_fmaf(s, t, y[3]);
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
    for (int i = 0; i < n; i++)
        to[i] = __builtin_fmaf(s, tl_from_half(x[i]), y[i]);
}

#ifdef TL_FIVE_AT_A_TIME
/* Five rows at a time. */
static inline void tl_add_five_halves(float *y, int pitch, const tl_half *x, const float *s, int columns)
{
#ifdef TL_XF16AUXVEC
    float *y0 = y, *y1 = y0 + pitch, *y2 = y1 + pitch, *y3 = y2 + pitch, *y4 = y3 + pitch;
    float p = tl_from_half(*x++), a, b, c;
    uint32_t next;
    __asm__ volatile(TL_FIVE("34", TL_LOAD_HALF("%[next]", "%[x]"), TL_FROM_HALF("%[p]", "%[next]"))
                     : [y0] "+r"(y0), [y1] "+r"(y1), [y2] "+r"(y2), [y3] "+r"(y3), [y4] "+r"(y4), [x] "+r"(x),
                       [p] "+r"(p), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [next] "=&r"(next)
                     : [s0] "r"(s[0]), [s1] "r"(s[1]), [s2] "r"(s[2]), [s3] "r"(s[3]), [s4] "r"(s[4]), [n] "r"(columns)
                     : "memory");
#else
    for (int i = 0; i < 5; i++)
        tl_add_scaled_halves(y + i * pitch, y + i * pitch, x, s[i], columns);
#endif
}
#endif

/* One of floats, or of halves. */
static inline float tl_number(const void *from, int half, int at)
{
    return half ? tl_from_half(((const tl_half *)from)[at]) : ((const float *)from)[at];
}

/* to[i][j] = s r[i] x[j] + y[i][j], by all cores; rows lie so far apart, and `to` may be y. Literals say whether x and
 * r are halves. */
static inline __attribute__((always_inline)) void tl_add_rows_of(float *to, const float *y, int pitch, const void *x,
                                                                 int x_half, const void *r, int r_half, float s,
                                                                 int rows, int columns)
{
    const float *floats = x;
    const tl_half *halves = x;
    int lo, hi, at = 0;
    tl_split(columns, 1, &lo, &hi);
#ifdef TL_FIVE_AT_A_TIME
    for (; rows - at >= 5 && to == y && lo < hi; at += 5, to += 5 * pitch, y += 5 * pitch) {
        const float by[5] = {s * tl_number(r, r_half, at), s * tl_number(r, r_half, at + 1),
                             s * tl_number(r, r_half, at + 2), s * tl_number(r, r_half, at + 3),
                             s * tl_number(r, r_half, at + 4)};
        if (x_half)
            tl_add_five_halves(to + lo, pitch, halves + lo, by, hi - lo);
        else
            tl_add_five(to + lo, pitch, floats + lo, by, hi - lo);
    }
#endif
    for (; at < rows; at++, to += pitch, y += pitch) {
        const float by = s * tl_number(r, r_half, at);
        if (x_half)
            tl_add_scaled_halves(to + lo, y + lo, halves + lo, by, hi - lo);
        else
            tl_add_scaled(to + lo, y + lo, floats + lo, by, hi - lo);
    }
}

/* The same of floats. */
static inline void tl_add_rows(float *to, const float *y, int pitch, const float *x, const float *r, float s, int rows,
                               int columns)
{
    tl_add_rows_of(to, y, pitch, x, 0, r, 0, s, rows, columns);
}
#endif
