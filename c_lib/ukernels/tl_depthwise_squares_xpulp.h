/* Squares of 2 x 2 outputs of a depthwise 3 x 3 input gradient of stride 2, one below the other, by PULP's own
 * instructions; internal to c_lib/kernels. A hardware loop goes down two squares at a time: the lower elements of dL/dy
 * of one are the upper ones of the next. */
#ifndef TL_DEPTHWISE_SQUARES_XPULP_H
#define TL_DEPTHWISE_SQUARES_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
/* From upper elements a0 and b0 to lower ones a1 and b1, which are loaded. */
#define TL_SQUARE_DOWN(a1_load, b1_load, a0, b0, a1, b1)                                                               \
    TL_MAC_ONTO_0("%[u1]", "%[w3]", b0) a1_load TL_MAC_ONTO_0("%[u0]", "%[w4]", a0) b1_load                            \
    TL_MAC("%[u1]", "%[w5]", a0) TL_MAC_ONTO_0("%[l0]", "%[w1]", a1) TL_MAC_ONTO_0("%[l1]", "%[w0]", b1)               \
    "sw %[u1], 4(%[upper])\n" TL_MAC("%[l0]", "%[w7]", a0) TL_MAC("%[l1]", "%[w2]", a1)                                \
    TL_STORE_STEP("%[u0]", "%[upper]", "%[down]") TL_MAC("%[l1]", "%[w6]", b0) TL_MAC("%[l1]", "%[w8]", a0)            \
    "sw %[l1], 4(%[lower])\n" TL_STORE_STEP("%[l0]", "%[lower]", "%[down]")
#define TL_INNER_DOWN(a0, b0, a1, b1)                                                                                  \
    TL_SQUARE_DOWN("lw " a1 ", -4(%[in])\n", TL_LOAD_STEP(b1, "%[in]", "%[pitch]"), a0, b0, a1, b1)
#define TL_EDGE_DOWN(a0, a1) TL_SQUARE_DOWN(TL_LOAD_STEP(a1, "%[in]", "%[pitch]"), , a0, "x0", a1, "x0")
#define TL_HALF_DOWN(a0, a1)                                                                                           \
    TL_LOAD_STEP(a1, "%[in]", "%[pitch]") TL_MAC_ONTO_0("%[u0]", "%[w4]", a0) TL_MAC_ONTO_0("%[l0]", "%[w1]", a1)      \
    TL_STORE_STEP("%[u0]", "%[upper]", "%[down]") TL_MAC("%[l0]", "%[w7]", a0)                                         \
    TL_STORE_STEP("%[l0]", "%[lower]", "%[down]")
/* Two at a time, of so many halfwords; `odd`: the one that is left. */
#define TL_DOWN_BY_TWOS(halfwords, even, odd)                                                                          \
    "srli %[u0], %[rows], 1\n.balign 4\n.option push\n.option norvc\nbeqz %[u0], 1f\n"                                 \
    TL_LOOP("%[u0]", halfwords) even "1:\nandi %[u0], %[rows], 1\nbeqz %[u0], 2f\n" odd "mv %[a0], %[a1]\n2:\n"        \
    ".option pop\n"
#define TL_DOWN_MOVES                                                                                                  \
    [in] "+&r"(in), [upper] "+&r"(d->upper), [lower] "+&r"(d->lower), [a0] "+&r"(d->a), [a1] "=&r"(a1),                \
        [u0] "=&r"(u0), [l0] "=&r"(l0)
#define TL_DOWN_BOTH [u1] "=&r"(u1), [l1] "=&r"(l1)
#define TL_DOWN_STEPS [pitch] "r"(4 * pitch), [down] "r"(4 * down), [rows] "r"(rows)
#define TL_DOWN_TAPS                                                                                                   \
    [w0] "r"(t.w[0]), [w1] "r"(t.w[1]), [w2] "r"(t.w[2]), [w3] "r"(t.w[3]), [w4] "r"(t.w[4]), [w5] "r"(t.w[5]),        \
        [w6] "r"(t.w[6]), [w7] "r"(t.w[7]), [w8] "r"(t.w[8])
/* clang-format on */

TL_DOWN void tl_rows_down(tl_down *d, const float *in, int pitch, tl_nine t, int rows, int down, int kind)
{
    float a1, b1, u0, u1, l0, l1;
    in += pitch;
    if (kind == TL_INNER) {
        ++in;
        __asm__ volatile(TL_DOWN_BY_TWOS("60",
                                         TL_INNER_DOWN("%[a0]", "%[b0]", "%[a1]", "%[b1]")
                                             TL_INNER_DOWN("%[a1]", "%[b1]", "%[a0]", "%[b0]"),
                                         TL_INNER_DOWN("%[a0]", "%[b0]", "%[a1]", "%[b1]") "mv %[b0], %[b1]\n")
                         : TL_DOWN_MOVES, TL_DOWN_BOTH, [b0] "+&r"(d->b), [b1] "=&r"(b1)
                         : TL_DOWN_TAPS, TL_DOWN_STEPS
                         : "memory");
    } else if (kind == TL_EDGE) {
        __asm__ volatile(TL_DOWN_BY_TWOS("56", TL_EDGE_DOWN("%[a0]", "%[a1]") TL_EDGE_DOWN("%[a1]", "%[a0]"),
                                         TL_EDGE_DOWN("%[a0]", "%[a1]"))
                         : TL_DOWN_MOVES, TL_DOWN_BOTH
                         : TL_DOWN_TAPS, TL_DOWN_STEPS
                         : "memory");
    } else {
        __asm__ volatile(TL_DOWN_BY_TWOS("24", TL_HALF_DOWN("%[a0]", "%[a1]") TL_HALF_DOWN("%[a1]", "%[a0]"),
                                         TL_HALF_DOWN("%[a0]", "%[a1]"))
                         : TL_DOWN_MOVES
                         : [w1] "r"(t.w[1]), [w4] "r"(t.w[4]), [w7] "r"(t.w[7]), TL_DOWN_STEPS
                         : "memory");
    }
}
#endif
#endif
