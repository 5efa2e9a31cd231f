/* Rows of outputs of a copied plane by PULP's own instructions; internal to c_lib/kernels. A hardware loop goes down
 * the kernel's rows. Six or four neighbouring outputs have their pixels of a tap in as many registers: the first of
 * these is free then, for the last pixel of the next tap, or, where outputs are two columns apart, of the one behind
 * it. */
#ifndef TL_PLANE_XPULP_H
#define TL_PLANE_XPULP_H
#include "tl_element.h"
#include "tl_tile_xpulp.h"

/* Results are stored as halves where a core converts them. */
#if defined(TL_XPULP_TILES) && (!defined(TL_HALVES) || defined(TL_XF16AUXVEC))
#define TL_XPULP_PLANES
#endif

#ifdef TL_XPULP_PLANES
/* `lanes` outputs of so many rows, and where the first one's window begins. */
typedef struct {
    const float *in, *w;
    tl_element *to;
    float start;
    int rows, kernel_rows;
    int above, image_rows; /* of the first one's window: rows above the image; and of that */
    int pitch, down, out_step,
        out_down; /* bytes: to a window's next row; from output row to output row; and of outputs */
} tl_plane_strip;

/* clang-format off */
#define TL_PIXEL(to, at) "lw " to ", 4*" #at "(%[p])\n"
#define TL_SIX_PIXELS(a, b, c, d, e, f)                                                                                \
    TL_FOUR_PIXELS(a, b, c, d) TL_PIXEL("s5", e) TL_PIXEL("s6", f)
#define TL_SIX_BETWEEN TL_FOUR_BETWEEN TL_PIXEL("a7", 9) TL_PIXEL("ra", 11)
#define TL_FOUR_PIXELS(a, b, c, d) TL_PIXEL("t6", a) TL_PIXEL("s2", b) TL_PIXEL("s3", c) TL_PIXEL("s4", d)
#define TL_FOUR_BETWEEN TL_PIXEL("s9", 1) TL_PIXEL("s10", 3) TL_PIXEL("s11", 5) TL_PIXEL("a6", 7)

/* A tap by the weight w and pixels p0 ..; what is loaded on the way. */
#define TL_SIX_SUMS(pixel, weight, w, p0, p1, p2, p3, p4, p5)                                                          \
    TL_MAC("t0", w, p0) TL_MAC("t1", w, p1) pixel TL_MAC("t2", w, p2) TL_MAC("t3", w, p3) weight                       \
    TL_MAC("t4", w, p4) TL_MAC("t5", w, p5)
#define TL_FOUR_SUMS(pixel, weight, w, p0, p1, p2, p3)                                                                 \
    TL_MAC("t0", w, p0) TL_MAC("t1", w, p1) pixel TL_MAC("t2", w, p2) weight TL_MAC("t3", w, p3)
#define TL_MORE6(at, next, w, p0, ...) TL_SIX_SUMS(TL_PIXEL(p0, at), TL_LOAD(next, "%[k]"), w, p0, __VA_ARGS__)
#define TL_NEXT6(next, ...) TL_SIX_SUMS(, TL_LOAD(next, "%[k]"), __VA_ARGS__)
#define TL_LAST6(...) TL_SIX_SUMS(, , __VA_ARGS__)
#define TL_MORE4(at, next, w, p0, ...) TL_FOUR_SUMS(TL_PIXEL(p0, at), TL_LOAD(next, "%[k]"), w, p0, __VA_ARGS__)
#define TL_NEXT4(next, ...) TL_FOUR_SUMS(, TL_LOAD(next, "%[k]"), __VA_ARGS__)
#define TL_LAST4(...) TL_FOUR_SUMS(, , __VA_ARGS__)

/* A kernel row of so many taps and outputs; of outputs two columns apart (S2). */
#define TL_SIX_BEGIN TL_LOAD("s7", "%[k]") TL_SIX_PIXELS(0, 1, 2, 3, 4, 5)
#define TL_SIX_1 TL_SIX_BEGIN TL_MORE6(6, "s8", "s7", "t6", "s2", "s3", "s4", "s5", "s6")
#define TL_SIX_2 TL_SIX_1 TL_MORE6(7, "s7", "s8", "s2", "s3", "s4", "s5", "s6", "t6")
#define TL_SIX_3 TL_SIX_2 TL_MORE6(8, "s8", "s7", "s3", "s4", "s5", "s6", "t6", "s2")
#define TL_SIX_4 TL_SIX_3 TL_MORE6(9, "s7", "s8", "s4", "s5", "s6", "t6", "s2", "s3")
#define TL_SIX_5 TL_SIX_4 TL_MORE6(10, "s8", "s7", "s5", "s6", "t6", "s2", "s3", "s4")
#define TL_SIX_6 TL_SIX_5 TL_MORE6(11, "s7", "s8", "s6", "t6", "s2", "s3", "s4", "s5")
#define TL_SIX_OF_2 TL_SIX_1 TL_LAST6("s8", "s2", "s3", "s4", "s5", "s6", "t6")
#define TL_SIX_OF_3 TL_SIX_2 TL_LAST6("s7", "s3", "s4", "s5", "s6", "t6", "s2")
#define TL_SIX_OF_4 TL_SIX_3 TL_LAST6("s8", "s4", "s5", "s6", "t6", "s2", "s3")
#define TL_SIX_OF_5 TL_SIX_4 TL_LAST6("s7", "s5", "s6", "t6", "s2", "s3", "s4")
#define TL_SIX_OF_7 TL_SIX_6 TL_LAST6("s7", "t6", "s2", "s3", "s4", "s5", "s6")
#define TL_SIX_S2_BEGIN TL_LOAD("s7", "%[k]") TL_SIX_PIXELS(0, 2, 4, 6, 8, 10) TL_SIX_BETWEEN
#define TL_SIX_S2_1 TL_SIX_S2_BEGIN TL_MORE6(12, "s8", "s7", "t6", "s2", "s3", "s4", "s5", "s6")
#define TL_SIX_S2_2 TL_SIX_S2_1 TL_MORE6(13, "s7", "s8", "s9", "s10", "s11", "a6", "a7", "ra")
#define TL_SIX_S2_3 TL_SIX_S2_2 TL_MORE6(14, "s8", "s7", "s2", "s3", "s4", "s5", "s6", "t6")
#define TL_SIX_S2_4 TL_SIX_S2_3 TL_MORE6(15, "s7", "s8", "s10", "s11", "a6", "a7", "ra", "s9")
#define TL_SIX_S2_5 TL_SIX_S2_4 TL_MORE6(16, "s8", "s7", "s3", "s4", "s5", "s6", "t6", "s2")
#define TL_SIX_S2_OF_5                                                                                                 \
    TL_SIX_S2_3 TL_NEXT6("s7", "s8", "s10", "s11", "a6", "a7", "ra", "s9")                                             \
    TL_LAST6("s7", "s3", "s4", "s5", "s6", "t6", "s2")
#define TL_SIX_S2_OF_7                                                                                                 \
    TL_SIX_S2_5 TL_NEXT6("s7", "s8", "s11", "a6", "a7", "ra", "s9", "s10")                                             \
    TL_LAST6("s7", "s4", "s5", "s6", "t6", "s2", "s3")
#define TL_FOUR_BEGIN TL_LOAD("s7", "%[k]") TL_FOUR_PIXELS(0, 1, 2, 3)
#define TL_FOUR_1 TL_FOUR_BEGIN TL_MORE4(4, "s8", "s7", "t6", "s2", "s3", "s4")
#define TL_FOUR_2 TL_FOUR_1 TL_MORE4(5, "s7", "s8", "s2", "s3", "s4", "t6")
#define TL_FOUR_3 TL_FOUR_2 TL_MORE4(6, "s8", "s7", "s3", "s4", "t6", "s2")
#define TL_FOUR_4 TL_FOUR_3 TL_MORE4(7, "s7", "s8", "s4", "t6", "s2", "s3")
#define TL_FOUR_5 TL_FOUR_4 TL_MORE4(8, "s8", "s7", "t6", "s2", "s3", "s4")
#define TL_FOUR_6 TL_FOUR_5 TL_MORE4(9, "s7", "s8", "s2", "s3", "s4", "t6")
#define TL_FOUR_OF_2 TL_FOUR_1 TL_LAST4("s8", "s2", "s3", "s4", "t6")
#define TL_FOUR_OF_3 TL_FOUR_2 TL_LAST4("s7", "s3", "s4", "t6", "s2")
#define TL_FOUR_OF_4 TL_FOUR_3 TL_LAST4("s8", "s4", "t6", "s2", "s3")
#define TL_FOUR_OF_5 TL_FOUR_4 TL_LAST4("s7", "t6", "s2", "s3", "s4")
#define TL_FOUR_OF_7 TL_FOUR_6 TL_LAST4("s7", "s3", "s4", "t6", "s2")
#define TL_FOUR_S2_BEGIN TL_LOAD("s7", "%[k]") TL_FOUR_PIXELS(0, 2, 4, 6) TL_FOUR_BETWEEN
#define TL_FOUR_S2_1 TL_FOUR_S2_BEGIN TL_MORE4(8, "s8", "s7", "t6", "s2", "s3", "s4")
#define TL_FOUR_S2_2 TL_FOUR_S2_1 TL_MORE4(9, "s7", "s8", "s9", "s10", "s11", "a6")
#define TL_FOUR_S2_3 TL_FOUR_S2_2 TL_MORE4(10, "s8", "s7", "s2", "s3", "s4", "t6")
#define TL_FOUR_S2_4 TL_FOUR_S2_3 TL_MORE4(11, "s7", "s8", "s10", "s11", "a6", "s9")
#define TL_FOUR_S2_5 TL_FOUR_S2_4 TL_MORE4(12, "s8", "s7", "s3", "s4", "t6", "s2")
#define TL_FOUR_S2_OF_5                                                                                                \
    TL_FOUR_S2_3 TL_NEXT4("s7", "s8", "s10", "s11", "a6", "s9") TL_LAST4("s7", "s3", "s4", "t6", "s2")
#define TL_FOUR_S2_OF_7                                                                                                \
    TL_FOUR_S2_5 TL_NEXT4("s7", "s8", "s11", "a6", "s9", "s10") TL_LAST4("s7", "s4", "t6", "s2", "s3")

#define TL_OF_SIX(what) what("t0") what("t1") what("t2") what("t3") what("t4") what("t5")
#define TL_OF_FOUR(what) what("t0") what("t1") what("t2") what("t3")
#define TL_NONE(sum) "li " sum ", 0\n"
#define TL_ONTO_START(sum) "fadd.s " sum ", t6, " sum "\n"
#ifdef TL_HALVES
#define TL_TO_STEP(sum) TL_TO_HALF(sum, sum) TL_STORE_HALF_STEP(sum, "%[k]", "s2")
#else
#define TL_TO_STEP(sum) "sw " sum ", 0(%[k])\nadd %[k], %[k], s2\n"
#endif

/* A loop ends with a load, as Spike's extension of the tests wants it: of what lies there, while p goes on to the next
 * row. */
#define TL_STRIP(lanes, taps, step, row, halfwords, ...)                                                               \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n"                                                        \
                     "1:\nlw s2, %[above]\nlw s3, %[image_rows]\nlw s4, %[kernel_rows]\naddi s7, s2, -" #step "\n"     \
                     "sw s7, %[above]\nadd s3, s3, s2\n" TL_MAX("s2", "s2", "zero") TL_MIN("s3", "s3", "s4")           \
                     "mv %[p], %[in]\n" TL_ADD_PRODUCT("%[p]", "s2", "%[pitch]") "sub s3, s3, s2\n"                    \
                     "lw %[k], %[w]\nli s4, 4*" #taps "\n" TL_ADD_PRODUCT("%[k]", "s2", "s4")                          \
                     lanes(TL_NONE) "blez s3, 2f\n"                                                                    \
                     TL_LOOP("s3", halfwords) row TL_LOAD_STEP("s7", "%[p]", "%[pitch]")                               \
                     "2:\nlw t6, %[start]\nlw s2, %[out_step]\nmv %[k], %[to]\n" lanes(TL_ONTO_START)                  \
                     lanes(TL_TO_STEP)                                                                                 \
                     "lw s2, %[down]\nadd %[in], %[in], s2\nlw s3, %[out_down]\nadd %[to], %[to], s3\n"                \
                     "addi %[rows], %[rows], -1\nbnez %[rows], 1b\n.option pop\n"                                      \
                     : [in] "+r"(in), [to] "+r"(to), [rows] "+r"(rows), [p] "=&r"(p), [k] "=&r"(k),                    \
                       [above] "+m"(s->above)                                                                          \
                     : [pitch] "r"(s->pitch), [w] "m"(s->w), [start] "m"(s->start), [kernel_rows] "m"(s->kernel_rows), \
                       [image_rows] "m"(s->image_rows), [down] "m"(s->down), [out_step] "m"(s->out_step),              \
                       [out_down] "m"(s->out_down)                                                                     \
                     : "memory", __VA_ARGS__)
#define TL_SIX_USES "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8"
#define TL_SIX_S2_USES TL_SIX_USES, "s9", "s10", "s11", "a6", "a7", "ra"
#define TL_FOUR_USES "t0", "t1", "t2", "t3", "t6", "s2", "s3", "s4", "s7", "s8"
#define TL_FOUR_S2_USES TL_FOUR_USES, "s9", "s10", "s11", "a6"
/* clang-format on */

/* At least one row; `above` goes on to the row behind them. Literals: lanes (six or four), taps, step. */
static inline __attribute__((always_inline)) void tl_plane_strip_xpulp(tl_plane_strip *s, int lanes, int taps, int step)
{
    const float *in = s->in, *p, *k;
    tl_element *to = s->to;
    int rows = s->rows;
    if (lanes == 6 && step == 1 && taps == 2)
        TL_STRIP(TL_OF_SIX, 2, 1, TL_SIX_OF_2, "44", TL_SIX_USES);
    else if (lanes == 6 && step == 1 && taps == 3)
        TL_STRIP(TL_OF_SIX, 3, 1, TL_SIX_OF_3, "60", TL_SIX_USES);
    else if (lanes == 6 && step == 1 && taps == 4)
        TL_STRIP(TL_OF_SIX, 4, 1, TL_SIX_OF_4, "76", TL_SIX_USES);
    else if (lanes == 6 && step == 1 && taps == 5)
        TL_STRIP(TL_OF_SIX, 5, 1, TL_SIX_OF_5, "92", TL_SIX_USES);
    else if (lanes == 6 && step == 1)
        TL_STRIP(TL_OF_SIX, 7, 1, TL_SIX_OF_7, "124", TL_SIX_USES);
    else if (lanes == 6 && taps == 5)
        TL_STRIP(TL_OF_SIX, 5, 2, TL_SIX_S2_OF_5, "102", TL_SIX_S2_USES);
    else if (lanes == 6)
        TL_STRIP(TL_OF_SIX, 7, 2, TL_SIX_S2_OF_7, "134", TL_SIX_S2_USES);
    else if (step == 1 && taps == 2)
        TL_STRIP(TL_OF_FOUR, 2, 1, TL_FOUR_OF_2, "32", TL_FOUR_USES);
    else if (step == 1 && taps == 3)
        TL_STRIP(TL_OF_FOUR, 3, 1, TL_FOUR_OF_3, "44", TL_FOUR_USES);
    else if (step == 1 && taps == 4)
        TL_STRIP(TL_OF_FOUR, 4, 1, TL_FOUR_OF_4, "56", TL_FOUR_USES);
    else if (step == 1 && taps == 5)
        TL_STRIP(TL_OF_FOUR, 5, 1, TL_FOUR_OF_5, "68", TL_FOUR_USES);
    else if (step == 1)
        TL_STRIP(TL_OF_FOUR, 7, 1, TL_FOUR_OF_7, "92", TL_FOUR_USES);
    else if (taps == 5)
        TL_STRIP(TL_OF_FOUR, 5, 2, TL_FOUR_S2_OF_5, "74", TL_FOUR_S2_USES);
    else
        TL_STRIP(TL_OF_FOUR, 7, 2, TL_FOUR_S2_OF_7, "98", TL_FOUR_S2_USES);
}
#endif
#endif
