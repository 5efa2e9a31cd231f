/* Down a column of outputs of a depthwise 3 x 3 kernel by PULP's own instructions; internal to c_lib/kernels. An image
 * row is the last one of a window, the middle one of the next and the first one of the third: sums change their names
 * where they are multiplied and added. */
#ifndef TL_DEPTHWISE_XPULP_H
#define TL_DEPTHWISE_XPULP_H
#include "tl_tile_xpulp.h"

#if defined(TL_XPULP_TILES) && TL_STEP_3X3 == 1
/* Where a column goes on: its next row, its next output, and the sums of this output and of the next. */
typedef struct {
    const float *in;
    float *to;
    float sum, next;
} tl_depthwise_column;

/* clang-format off */
/* The columns of a window are met from the first tap on: from left to right or, turned, from right to left. */
#if TL_TURNED_3X3
#define TL_BACK(n) #n
#else
#define TL_BACK(n) "-" #n
#endif
#define TL_META(to, w, x, from) "fmadd.s %[" to "], %[" w "], %[" x "], " from "\n"
#define TL_ONTO_ITSELF(to, w, x) TL_META(to, w, x, "%[" to "]")
#define TL_NOTHING_ONTO(to, w, x) TL_META(to, w, x, "x0")
#define TL_FIRST_TWO "lw %[a], " TL_BACK(8) "(%[p])\nlw %[b], " TL_BACK(4) "(%[p])\n"
#define TL_FIRST_ONE "lw %[a], " TL_BACK(4) "(%[p])\n"
/* A step down with three columns, or two. A loop ends with a load, as Spike's extension of the tests wants it. */
#define TL_DOWN_THREE                                                                                                  \
    ".option push\n.option norvc\n" TL_LOOP("%[n]", "30") "lw %[a], " TL_BACK(8) "(%[p])\n"                           \
        TL_META("t", "a2", "a", "%[sum]") TL_META("sum", "a1", "a", "%[next]") "lw %[b], " TL_BACK(4) "(%[p])\n"       \
        TL_NOTHING_ONTO("next", "a0", "a") TL_ONTO_ITSELF("t", "b2", "b") TL_ONTO_ITSELF("sum", "b1", "b")             \
        TL_LOAD_STEP("%[c]", "%[p]", "%[by]") TL_ONTO_ITSELF("next", "b0", "b") TL_ONTO_ITSELF("t", "c2", "c")         \
        TL_ONTO_ITSELF("sum", "c1", "c") "fadd.s %[t], %[start], %[t]\n" TL_ONTO_ITSELF("next", "c0", "c") TL_DOWN_END
#define TL_DOWN_TWO                                                                                                    \
    ".option push\n.option norvc\n" TL_LOOP("%[n]", "22") TL_FIRST_ONE TL_META("t", "a2", "a", "%[sum]")               \
        TL_META("sum", "a1", "a", "%[next]") TL_LOAD_STEP("%[b]", "%[p]", "%[by]") TL_NOTHING_ONTO("next", "a0", "a")  \
        TL_ONTO_ITSELF("t", "b2", "b") TL_ONTO_ITSELF("sum", "b1", "b") "fadd.s %[t], %[start], %[t]\n"                \
        TL_ONTO_ITSELF("next", "b0", "b") TL_DOWN_END
#define TL_DOWN_END TL_STORE_STEP("%[t]", "%[to]", "%[out]") TL_LOAD_BY("0", "%[t]", "sp") ".option pop\n"
#define TL_DOWN_MOVES                                                                                                  \
    [p] "+r"(in), [to] "+r"(to), [sum] "+r"(sum), [next] "+r"(next), [t] "=&r"(t), [a] "=&r"(x0), [b] "=&r"(x1)
#define TL_DOWN_FIXED                                                                                                  \
    [n] "r"(outs), [start] "r"(start), [by] "r"(4 * pitch), [out] "r"(4 * out_pitch), [a0] "r"(w[0]), [a1] "r"(w[3]),  \
        [a2] "r"(w[6]), [b0] "r"(w[1]), [b1] "r"(w[4]), [b2] "r"(w[7])

/* Column by column: the first row, which no window has last; a step for each output but one; the last output. */
#define TL_ACROSS_BEGIN "1:\nmv %[p], %[in]\nmv %[to], %[top]\n"
#define TL_FIRST_ROW(column) TL_ONTO_ITSELF("sum", #column "1", #column) TL_ONTO_ITSELF("next", #column "0", #column)
#define TL_BEGIN_ROW TL_NOTHING_ONTO("sum", "a1", "a") TL_NOTHING_ONTO("next", "a0", "a")
#define TL_ACROSS_END                                                                                                  \
    "fadd.s %[t], %[start], %[sum]\nsw %[t], 0(%[to])\naddi %[in], %[in], 4\naddi %[top], %[top], 4\n"                 \
    "addi %[columns], %[columns], -1\nbnez %[columns], 1b\n"
#define TL_ACROSS_MOVES                                                                                                \
    [in] "+r"(in), [top] "+r"(top), [columns] "+r"(columns), [p] "=&r"(p), [to] "=&r"(to), [sum] "=&r"(sum),           \
        [next] "=&r"(next), [t] "=&r"(t), [a] "=&r"(x0), [b] "=&r"(x1)
/* clang-format on */

/* So many outputs, at least one, of windows of which three columns are in the image, or two. in: where the first tap
 * of w reads; w: the taps of the first of these columns. Literal: three. */
static inline __attribute__((always_inline)) void tl_depthwise_down(tl_depthwise_column *at, const float *w, int pitch,
                                                                    int out_pitch, float start, int outs, int three)
{
    const float *in = at->in + (TL_TURNED_3X3 ? -1 : 1) * (three ? 2 : 1);
    float *to = at->to, sum = at->sum, next = at->next, t, x0, x1, x2;
    if (three)
        __asm__ volatile(".balign 4\n" TL_DOWN_THREE
                         : TL_DOWN_MOVES, [c] "=&r"(x2)
                         : TL_DOWN_FIXED, [c0] "r"(w[2]), [c1] "r"(w[5]), [c2] "r"(w[8])
                         : "memory");
    else
        __asm__ volatile(".balign 4\n" TL_DOWN_TWO : TL_DOWN_MOVES : TL_DOWN_FIXED : "memory");
    at->in = in, at->to = to, at->sum = sum, at->next = next;
}

/* The same of so many neighbouring columns of a whole plane, with a row of zeros above and one below; `outs`, at least
 * one, but for the last output of each. in: where the first tap of w reads, in the plane's first row. */
static inline __attribute__((always_inline)) void tl_depthwise_across(const float *in, float *top, const float *w,
                                                                      int pitch, int out_pitch, float start, int outs,
                                                                      int columns, int three)
{
    const float *p;
    float *to, sum, next, t, x0, x1, x2;
    in += (TL_TURNED_3X3 ? -1 : 1) * (three ? 2 : 1);
    if (three)
        __asm__ volatile(".balign 4\n" TL_ACROSS_BEGIN TL_FIRST_TWO TL_BEGIN_ROW TL_LOAD_STEP("%[c]", "%[p]", "%[by]")
                             TL_FIRST_ROW(b) TL_FIRST_ROW(c) ".balign 4\n" TL_DOWN_THREE TL_ACROSS_END
                         : TL_ACROSS_MOVES, [c] "=&r"(x2)
                         : TL_DOWN_FIXED, [c0] "r"(w[2]), [c1] "r"(w[5]), [c2] "r"(w[8])
                         : "memory");
    else
        __asm__ volatile(".balign 4\n" TL_ACROSS_BEGIN TL_FIRST_ONE TL_BEGIN_ROW TL_LOAD_STEP("%[b]", "%[p]", "%[by]")
                             TL_FIRST_ROW(b) ".balign 4\n" TL_DOWN_TWO TL_ACROSS_END
                         : TL_ACROSS_MOVES
                         : TL_DOWN_FIXED
                         : "memory");
}
#endif
#endif
