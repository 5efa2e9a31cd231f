/* Rows of neighbours, copied in one order or the other; internal to c_lib/kernels. */
#ifndef TL_COPY_ROWS_H
#define TL_COPY_ROWS_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
/* At least one row of at least one element, read in steps of `by`. Two are on their way, as a loop ends with a load. */
#define TL_COPY_ROWS(by)                                                                                               \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n"                                                        \
                     "1:\nbeqz %[pairs], 4f\naddi t2, %[pairs], -1\n" TL_LOAD_BY(by, "t0", "%[from]")                  \
                     TL_LOAD_BY(by, "t1", "%[from]") "beqz t2, 3f\n" TL_LOOP("t2", "8")                                \
                     TL_STORE_ON("t0", "%[to]") TL_LOAD_BY(by, "t0", "%[from]")                                        \
                     TL_STORE_ON("t1", "%[to]") TL_LOAD_BY(by, "t1", "%[from]")                                        \
                     "3:\n" TL_STORE_ON("t0", "%[to]") TL_STORE_ON("t1", "%[to]")                                      \
                     "4:\nbeqz %[odd], 5f\n" TL_LOAD_BY(by, "t0", "%[from]") TL_STORE_ON("t0", "%[to]")                \
                     "5:\nadd %[from], %[from], %[down]\nadd %[to], %[to], %[to_down]\naddi %[rows], %[rows], -1\n"    \
                     "bnez %[rows], 1b\n.option pop\n"                                                                 \
                     : [from] "+r"(from), [to] "+r"(to), [rows] "+r"(rows)                                             \
                     : [pairs] "r"(count >> 1), [odd] "r"(count & 1), [down] "r"(4 * (down - step * count)),           \
                       [to_down] "r"(4 * (to_down - count))                                                            \
                     : "memory", "t0", "t1", "t2")
/* clang-format on */

static inline __attribute__((always_inline)) void tl_copy_rows(const float *from, int step, int down, float *to,
                                                               int to_down, int rows, int count)
{
    if (rows <= 0 || count <= 0)
        return;
    if (step < 0)
        TL_COPY_ROWS("-4");
    else
        TL_COPY_ROWS("4");
}
#else
/* Neighbours in one order or the other; step, a literal. */
static inline __attribute__((always_inline)) void tl_copy_row(const float *from, int count, int step, float *to)
{
    for (; count >= 4; count -= 4, from += 4 * step, to += 4) {
        const float second = from[step], third = from[2 * step], fourth = from[3 * step];
        to[0] = from[0], to[1] = second, to[2] = third, to[3] = fourth;
    }
    if (count >= 2) {
        const float second = from[step];
        to[0] = from[0], to[1] = second;
        from += 2 * step, to += 2, count -= 2;
    }
    if (count > 0)
        *to = *from;
}

static inline __attribute__((always_inline)) void tl_copy_rows(const float *from, int step, int down, float *to,
                                                               int to_down, int rows, int count)
{
    for (; rows > 0; --rows, from += down, to += to_down) {
        if (step < 0)
            tl_copy_row(from, count, -1, to);
        else
            tl_copy_row(from, count, 1, to);
    }
}
#endif
#endif
