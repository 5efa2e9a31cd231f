/* One term of a 4 x 4 tile as a schedule, held in place on RISC-V; internal to c_lib/kernels. A multiply-add stands
 * between any two other instructions: cores that share a float unit then give way to each other, however far one is
 * ahead (docs/decisions/speed.md). Tile column by column, so that few of the right operands are in registers at a
 * time. */
#ifndef TL_TERMS_H
#define TL_TERMS_H

/* The compiler computes a value here, not earlier or later. */
#if defined(__riscv_zfinx)
#define TL_HERE(value) __asm__ volatile("" : "+r"(value));
#define TL_ADDRESS_HERE(p) __asm__ volatile("" : "+r"(p));
#elif defined(__riscv_flen)
#define TL_HERE(value) __asm__ volatile("" : "+f"(value));
#define TL_ADDRESS_HERE(p) __asm__ volatile("" : "+r"(p));
#else
#define TL_HERE(value)
#define TL_ADDRESS_HERE(p)
#endif

/* clang-format off */
#define TL_FMA(i, j) c##i##j = __builtin_fmaf(w##i, x##j, c##i##j); TL_HERE(c##i##j)
#define TL_GET(value, from) value = from; TL_HERE(value)
#define TL_POINT(p, to) p = to; TL_ADDRESS_HERE(p)
#define TL_FOUR(i) TL_FMA(i, 0) TL_FMA(i, 1) TL_FMA(i, 2) TL_FMA(i, 3)
#define TL_IF(more, what) if (more) { what }
#define TL_EACH_ROW(what) what(0) what(1) what(2) what(3)
#define TL_ZERO_ROW(i) float c##i##0 = 0.0f, c##i##1 = 0.0f, c##i##2 = 0.0f, c##i##3 = 0.0f;

/* One term. `more`, a literal: the first operands of the next one are loaded on the way. */
#define TL_TERM_OF_PANEL(more)                                                                                         \
    TL_FMA(0, 0) TL_GET(w2, a[2])                                                                                      \
    TL_FMA(1, 0) TL_GET(w3, a[3])                                                                                      \
    TL_FMA(2, 0) TL_GET(x1, b[1])                                                                                      \
    TL_FMA(3, 0)                                                                                                       \
    TL_FMA(0, 1) TL_GET(x2, b[2])                                                                                      \
    TL_FMA(1, 1)                                                                                                       \
    TL_FMA(2, 1) TL_IF(more, TL_POINT(a, a + a_k))                                                                     \
    TL_FMA(3, 1)                                                                                                       \
    TL_FMA(0, 2) TL_GET(x3, b[3])                                                                                      \
    TL_FMA(1, 2) TL_IF(more, TL_POINT(b, b + b_k))                                                                     \
    TL_FMA(2, 2)                                                                                                       \
    TL_FMA(3, 2) TL_IF(more, TL_GET(x0, b[0]))                                                                         \
    TL_FMA(0, 3) TL_IF(more, TL_GET(w0, a[0]))                                                                         \
    TL_FMA(1, 3) TL_IF(more, TL_GET(w1, a[1]))                                                                         \
    TL_FMA(2, 3) TL_IF(more, TL_POINT(left, left - 1))                                                                 \
    TL_FMA(3, 3)

/* All of them, at least one. */
#define TL_TERMS_OF_PANEL(terms)                                                                                       \
    float w0 = a[0], w1 = a[1], w2, w3, x0 = b[0], x1, x2, x3;                                                         \
    int left = (terms) - 1;                                                                                            \
    TL_ADDRESS_HERE(left)                                                                                              \
    while (left != 0) {                                                                                                \
        TL_TERM_OF_PANEL(1)                                                                                            \
    }                                                                                                                  \
    TL_TERM_OF_PANEL(0)

/* One term of four rows that are `step` elements apart; x1, too, is loaded beforehand. */
#define TL_TERM_OF_ROWS(more)                                                                                          \
    TL_FMA(0, 0) TL_POINT(at, a + step)                                                                                \
    TL_FMA(1, 0) TL_POINT(at, at + step)                                                                               \
    TL_FMA(0, 1) TL_GET(w2, *at)                                                                                       \
    TL_FMA(1, 1) TL_POINT(at, at + step)                                                                               \
    TL_FMA(2, 0) TL_GET(w3, *at)                                                                                       \
    TL_FMA(2, 1) TL_GET(x2, b[2])                                                                                      \
    TL_FMA(3, 0) TL_IF(more, TL_POINT(left, left - 1))                                                                 \
    TL_FMA(3, 1) TL_IF(more, TL_POINT(a, a + 1))                                                                       \
    TL_FMA(0, 2) TL_GET(x3, b[3])                                                                                      \
    TL_FMA(1, 2) TL_IF(more, TL_POINT(b, b + b_k))                                                                     \
    TL_FMA(2, 2) TL_IF(more, TL_GET(x0, b[0]))                                                                         \
    TL_FMA(3, 2) TL_IF(more, TL_GET(x1, b[1]))                                                                         \
    TL_FMA(0, 3) TL_IF(more, TL_GET(w0, *a))                                                                           \
    TL_FMA(1, 3) TL_IF(more, TL_POINT(at, a + step))                                                                   \
    TL_FMA(2, 3) TL_IF(more, TL_GET(w1, *at))                                                                          \
    TL_FMA(3, 3)

/* Where the step of b takes a register: x1 is loaded late, and w2 and w3 are used as soon as they are there. */
#define TL_TERM_OF_ROWS_APART(more)                                                                                    \
    TL_FMA(0, 0) TL_GET(x1, b[1])                                                                                      \
    TL_FMA(1, 0) TL_POINT(at, a + step)                                                                                \
    TL_FMA(0, 1) TL_POINT(at, at + step)                                                                               \
    TL_FMA(1, 1) TL_GET(w2, *at)                                                                                       \
    TL_FMA(2, 0) TL_POINT(at, at + step)                                                                               \
    TL_FMA(2, 1) TL_GET(w3, *at)                                                                                       \
    TL_FMA(3, 0) TL_GET(x2, b[2])                                                                                      \
    TL_FMA(3, 1) TL_IF(more, TL_POINT(a, a + 1))                                                                       \
    TL_FMA(0, 2) TL_GET(x3, b[3])                                                                                      \
    TL_FMA(1, 2) TL_IF(more, TL_POINT(b, b + b_k))                                                                     \
    TL_FMA(2, 2) TL_IF(more, TL_POINT(left, left - 1))                                                                 \
    TL_FMA(3, 2) TL_IF(more, TL_GET(x0, b[0]))                                                                         \
    TL_FMA(0, 3) TL_IF(more, TL_GET(w0, *a))                                                                           \
    TL_FMA(1, 3) TL_IF(more, TL_POINT(at, a + step))                                                                   \
    TL_FMA(2, 3) TL_IF(more, TL_GET(w1, *at))                                                                          \
    TL_FMA(3, 3)
/* clang-format on */
#endif
