/* Three squares of 2 x 2 outputs of an input gradient by PULP's own instructions: a hardware loop of 18 loads that
 * advance and 27 multiply-adds, which reads dL/dy from planes with zeros around them; internal to c_lib/kernels. */
#ifndef TL_SQUARES_THREE_XPULP_H
#define TL_SQUARES_THREE_XPULP_H
#include "tl_tile_xpulp.h"

/* Items of three squares, of several channels or side by side. Steps are bytes. */
typedef struct {
    const float *met; /* what they meet, the upper row first */
    int row, plane;   /* ... to its lower row, to the next channel of dL/dy */
    const float *w;
    int w_chan; /* to the next channel of dL/dy, at least one of `channels` */
    int channels;
    float *out, *lower;                                /* two rows of six */
    const float *start;                                /* what an item begins with, or NULL: what is there */
    int count, met_next, w_next, out_next, start_next; /* items, and from one to the next */
} tl_squares_run;

#ifdef TL_XPULP_TILES
/* clang-format off */
/* The sums of three squares: of outputs with one tap of a kernel, with two of a row, two of a column, and four. */
#define TL_ONE "t0", "t1", "t2"
#define TL_ACROSS "t3", "t4", "t5"
#define TL_DOWN "t6", "s2", "s3"
#define TL_ALL_TAPS "s4", "s5", "s6"
/* Elements of dL/dy, 0 1 2 and 1 2 3 of the lower row and of the upper one; weights are in a4 and a5. */
#define TL_LOWER "s7", "s8", "s9"
#define TL_NEXT_LOWER "s8", "s9", "s10"
#define TL_UPPER "s11", "a6", "a7"
#define TL_NEXT_UPPER "a6", "a7", "ra"
/* A weight with three elements; loads stand behind the first and the second one. */
#define TL_TAP(what, ...) what(__VA_ARGS__)
#define TL_WITH(load0, load1, w, y0, y1, y2, s0, s1, s2)                                                               \
    TL_MAC(s0, w, y0) load0 TL_MAC(s1, w, y1) load1 TL_MAC(s2, w, y2)
#define TL_DY(by, to) TL_LOAD_BY(by, to, "%[y]")
#define TL_WEIGHT(to) TL_LOAD(to, "%[at]")

/* One channel. The upper row's last element is loaded once more, to go on: a hardware loop ends with such a load. */
#define TL_SQUARES_TERM                                                                                                \
    TL_WEIGHT("a4") TL_DY("4", "s7") TL_DY("4", "s8") TL_WEIGHT("a5")                                                  \
    TL_MAC("s4", "a4", "s8") TL_DY("4", "s9") TL_MAC("t6", "a5", "s7") TL_LOAD_STEP("s10", "%[y]", "%[up]")            \
    TL_MAC("s5", "a4", "s9") TL_DY("4", "s11") TL_MAC("s2", "a5", "s8")                                                \
    TL_MAC("s6", "a4", "s10") TL_WEIGHT("a4") TL_MAC("s3", "a5", "s9") TL_DY("4", "a6")                                \
    TL_TAP(TL_WITH, TL_WEIGHT("a5"), TL_DY("4", "a7"), "a4", TL_LOWER, TL_ALL_TAPS) TL_DY("0", "ra")                   \
    TL_TAP(TL_WITH, TL_WEIGHT("a4"), , "a5", TL_NEXT_UPPER, TL_ACROSS)                                                 \
    TL_TAP(TL_WITH, TL_WEIGHT("a5"), , "a4", TL_UPPER, TL_ONE)                                                         \
    TL_TAP(TL_WITH, TL_WEIGHT("a4"), , "a5", TL_UPPER, TL_ACROSS)                                                      \
    TL_TAP(TL_WITH, TL_WEIGHT("a5"), , "a4", TL_NEXT_UPPER, TL_ALL_TAPS)                                               \
    TL_TAP(TL_WITH, TL_LOAD_STEP("a4", "%[at]", "%[step]"), , "a5", TL_UPPER, TL_DOWN)                                 \
    TL_TAP(TL_WITH, , , "a4", TL_UPPER, TL_ALL_TAPS) TL_LOAD_STEP("ra", "%[y]", "%[down]")

/* Adds three sums to every other element of the row that a5 points at, from so many bytes on; they begin anew. */
#define TL_BEGIN_THREE(s0, s1, s2) "li " s0 ", 0\nli " s1 ", 0\nli " s2 ", 0\n"
#define TL_ADD_THREE(o0, o1, o2, s0, s1, s2)                                                                           \
    "lw a4, " o0 "(a5)\nlw a6, " o1 "(a5)\nlw a7, " o2 "(a5)\n"                                                        \
    "fadd.s a4, a4, " s0 "\nfadd.s a6, a6, " s1 "\nfadd.s a7, a7, " s2 "\n"                                            \
    "sw a4, " o0 "(a5)\nsw a6, " o1 "(a5)\nsw a7, " o2 "(a5)\n" TL_BEGIN_THREE(s0, s1, s2)
#define TL_ADD_EVEN(...) TL_EACH(TL_ADD_THREE, "0", "8", "16", __VA_ARGS__)
#define TL_ADD_ODD(...) TL_EACH(TL_ADD_THREE, "4", "12", "20", __VA_ARGS__)

/* What the squares of a channel are added to, but where they are added to what is there. */
#define TL_START_THREE(at)                                                                                             \
    "lw a5, " at "\nsw a4, 0(a5)\nsw a4, 4(a5)\nsw a4, 8(a5)\n"                                                        \
    "sw a4, 12(a5)\nsw a4, 16(a5)\nsw a4, 20(a5)\n"

/* s11: channels that are left, s7: blocks that are done. */
#define TL_SQUARES                                                                                                     \
    TL_EACH(TL_BEGIN_THREE, TL_ONE) TL_EACH(TL_BEGIN_THREE, TL_ACROSS) TL_EACH(TL_BEGIN_THREE, TL_DOWN)                \
    TL_EACH(TL_BEGIN_THREE, TL_ALL_TAPS)                                                                               \
    "4:\nlw a5, %[start]\nbeqz a5, 5f\nlw a4, 0(a5)\nlw a6, %[start_next]\nadd a5, a5, a6\nsw a5, %[start]\n"          \
    TL_START_THREE("%[upper]") TL_START_THREE("%[lower]") "5:\nlw s11, %[channels]\nsw x0, %[blocks]\n"                \
    "0:\nli a5, 16\nmv a4, s11\nble s11, a5, 1f\nmv a4, a5\n"                                                          \
    "1:\nsub s11, s11, a4\nsw s11, %[left]\n.balign 4\n.option push\n.option norvc\n"                                  \
    TL_LOOP("a4", "90") TL_SQUARES_TERM ".option pop\n"                                                                \
    "lw s11, %[left]\nlw a5, %[lower]\n" TL_ADD_ODD(TL_ALL_TAPS)                                                       \
    "lw s7, %[blocks]\naddi s7, s7, 1\nsw s7, %[blocks]\n"                                                             \
    "beqz s11, 2f\nandi a4, s7, 1\nbnez a4, 0b\n2:\n" TL_ADD_EVEN(TL_DOWN) "lw a5, %[upper]\n" TL_ADD_ODD(TL_ACROSS)   \
    "beqz s11, 3f\nandi a4, s7, 3\nbnez a4, 0b\n3:\n" TL_ADD_EVEN(TL_ONE) "bnez s11, 0b\n"                             \
    "lw s7, %[lower]\nlw a4, %[out_next]\nlw a6, %[w_next]\nlw a7, %[y_next]\nadd a5, a5, a4\nadd s7, s7, a4\n"        \
    "lw a4, %[count]\nsw a5, %[upper]\nsw s7, %[lower]\nadd %[at], %[at], a6\nadd %[y], %[y], a7\naddi a4, a4, -1\n"   \
    "sw a4, %[count]\nbnez a4, 4b\n"
/* clang-format on */

static inline __attribute__((always_inline)) void tl_xpulp_squares_three(tl_squares_run *r)
{
    const float *y = (const float *)((const char *)r->met + r->row), *at = r->w;
    const int w_next = r->w_next - r->channels * r->w_chan, y_next = r->met_next - r->channels * r->plane;
    int left, blocks;
    __asm__ volatile(TL_SQUARES
                     : [y] "+&r"(y), [at] "+&r"(at), [upper] "+m"(r->out), [lower] "+m"(r->lower),
                       [start] "+m"(r->start), [count] "+m"(r->count), [left] "=m"(left), [blocks] "=m"(blocks)
                     : [step] "r"(r->w_chan - 32), [up] "r"(-r->row - 12), [down] "r"(r->plane + r->row - 12),
                       [channels] "m"(r->channels), [start_next] "m"(r->start_next), [out_next] "m"(r->out_next),
                       [w_next] "m"(w_next), [y_next] "m"(y_next)
                     : "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7",
                       "s8", "s9", "s10", "s11", "a4", "a5", "a6", "a7");
}
#endif
#endif
