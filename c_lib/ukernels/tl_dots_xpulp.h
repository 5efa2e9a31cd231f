/* Several sums of products with one vector by PULP's own instructions: a hardware loop of loads that advance; internal
 * to c_lib/kernels. The vector is of floats, or of halves in a source that defines TL_HALF_VECTOR first. */
#ifndef TL_DOTS_XPULP_H
#define TL_DOTS_XPULP_H
#include "tl_half.h"
#include "tl_xpulp.h"

#ifdef TL_HALF_VECTOR
typedef tl_half tl_met;
#define TL_WIDE(x) tl_from_half(x)
#define TL_VECTOR(p) (p)->b_f16
#define TL_MET TL_LOAD_HALF("%[x]", "%[v]")
#define TL_WIDEN TL_FROM_HALF("%[x]", "%[x]") /* behind another load */
#define TL_MET_LOOP(halfwords) TL_LOOP("%[n]", halfwords " + 2")
#else
typedef float tl_met;
#define TL_WIDE(x) (x)
#define TL_VECTOR(p) (p)->b
#define TL_MET TL_LOAD("%[x]", "%[v]")
#define TL_WIDEN
#define TL_MET_LOOP(halfwords) TL_LOOP("%[n]", halfwords)
#endif

#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__) &&                                            \
    (defined(TL_XF16AUXVEC) || !defined(TL_HALF_VECTOR))
#define TL_XPULP_DOTS

/* clang-format off */
/* A term's last sum waits for the next term, and the first term adds 0 * 0 to it: so the loop ends with a load, and
 * none goes beyond the last term. Lines are loaded by turns into a and b. */
#define TL_PLAIN(code) ".balign 4\n.option push\n.option norvc\n" code ".option pop\n"
#define TL_DOTS(halfwords, terms, last) TL_PLAIN(TL_MET_LOOP(halfwords) terms) TL_ONTO_SUM(last, "b")
#define TL_ONTO_SUM(sum, value) "fmadd.s %[" sum "], %[" value "], %[x], %[" sum "]\n"
#define TL_LINE(to, line) TL_LOAD("%[" to "]", "%[" line "]")
#define TL_FOUR_LINES                                                                                                  \
    TL_LINE("a", "w0") TL_ONTO_SUM("s3", "b") TL_MET TL_LINE("b", "w1") TL_WIDEN TL_ONTO_SUM("s0", "a")                \
    TL_LINE("a", "w2") TL_ONTO_SUM("s1", "b") TL_ONTO_SUM("s2", "a") TL_LINE("b", "w3")
/* One pointer goes from line to line and back. */
#define TL_LINE_BY(to, by) TL_LOAD_STEP("%[" to "]", "%[w]", "%[" by "]")
#define TL_THREE_LINES_BY                                                                                              \
    TL_LINE_BY("a", "one") TL_ONTO_SUM("s2", "b") TL_MET TL_LINE_BY("b", "two") TL_WIDEN TL_ONTO_SUM("s0", "a")        \
    TL_ONTO_SUM("s1", "b") TL_LINE_BY("b", "back")
#define TL_FOUR_LINES_BY                                                                                               \
    TL_LINE_BY("a", "one") TL_ONTO_SUM("s3", "b") TL_MET TL_LINE_BY("b", "one") TL_WIDEN TL_ONTO_SUM("s0", "a")        \
    TL_LINE_BY("a", "one") TL_ONTO_SUM("s1", "b") TL_ONTO_SUM("s2", "a") TL_LINE_BY("b", "back")
#define TL_SIX_LINES_BY                                                                                                \
    TL_LINE_BY("a", "one") TL_ONTO_SUM("s5", "b") TL_MET TL_LINE_BY("b", "one") TL_WIDEN TL_ONTO_SUM("s0", "a")        \
    TL_LINE_BY("a", "one") TL_ONTO_SUM("s1", "b") TL_LINE_BY("b", "one") TL_ONTO_SUM("s2", "a")                        \
    TL_LINE_BY("a", "one") TL_ONTO_SUM("s3", "b") TL_ONTO_SUM("s4", "a") TL_LINE_BY("b", "back")
/* Here the loop ends with the next term's first load, so that no two multiply-adds follow each other. */
#define TL_SUM_AND_LINE(sum, value, to, by) TL_ONTO_SUM(sum, value) TL_LINE_BY(to, by)
#define TL_EIGHT_LINES_BY                                                                                              \
    TL_ONTO_SUM("s7", "b") TL_MET TL_LINE_BY("b", "one") TL_WIDEN                                                      \
    TL_SUM_AND_LINE("s0", "a", "a", "one") TL_SUM_AND_LINE("s1", "b", "b", "one")                                      \
    TL_SUM_AND_LINE("s2", "a", "a", "one") TL_SUM_AND_LINE("s3", "b", "b", "one")                                      \
    TL_SUM_AND_LINE("s4", "a", "a", "one") TL_SUM_AND_LINE("s5", "b", "b", "back") TL_ONTO_SUM("s6", "a")
#define TL_EIGHT_LOOP TL_PLAIN(TL_MET_LOOP("34") TL_EIGHT_LINES_BY TL_LINE_BY("a", "one"))
#define TL_EIGHT_LAST TL_PLAIN(TL_EIGHT_LINES_BY TL_ONTO_SUM("s7", "b"))
#define TL_EIGHT_SUMS                                                                                                  \
    [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [s4] "+r"(s4), [s5] "+r"(s5), [s6] "+r"(s6),           \
        [s7] "+r"(s7)
/* A sum on what stands at `from`, to where `to` points. */
#define TL_ADD_SUM(sum)                                                                                                \
    TL_LOAD_STEP("%[a]", "%[from]", "%[from_step]") "fadd.s %[" sum "], %[a], %[" sum "]\n"                            \
    TL_STORE_STEP("%[" sum "]", "%[to]", "%[to_step]")
#define TL_ADD_EIGHT                                                                                                   \
    TL_ADD_SUM("s0") TL_ADD_SUM("s1") TL_ADD_SUM("s2") TL_ADD_SUM("s3") TL_ADD_SUM("s4") TL_ADD_SUM("s5")              \
    TL_ADD_SUM("s6") TL_ADD_SUM("s7")
/* Four rows of a gate: each load goes on to the next row, the third one's `by` to those of the next gate. */
#define TL_ROW_ONTO(sum, now, next, by) TL_LOAD_STEP(next, "%[w]", by) "fmadd.s " sum ", " now ", s1, " sum "\n"
#define TL_ROWS_OF_GATE(by, s0, s1, s2, s3)                                                                            \
    TL_ROW_ONTO(s0, "a4", "a5", "%[row]") TL_ROW_ONTO(s1, "a5", "a4", "%[row]") TL_ROW_ONTO(s2, "a4", "a5", by)        \
    TL_ROW_ONTO(s3, "a5", "a4", "%[row]")
/* The last gate ends with a load. */
#define TL_ROWS_OF_LAST(by, s0, s1, s2, s3)                                                                            \
    TL_ROW_ONTO(s0, "a4", "a5", "%[row]") TL_ROW_ONTO(s1, "a5", "a4", "%[row]") TL_ROW_ONTO(s2, "a4", "a5", by)        \
    "fmadd.s " s3 ", a5, s1, " s3 "\n" TL_LOAD_STEP("a4", "%[w]", "%[row]")
#define TL_NONE(s0, s1, s2, s3) "li " s0 ", 0\nli " s1 ", 0\nli " s2 ", 0\nli " s3 ", 0\n"
#define TL_PUT_SUM(at, sum) "fadd.s " sum ", " sum ", x0\nsw " sum ", " at "(%[out])\n"
#define TL_PUT_GATE(at0, at1, at2, at3, s0, s1, s2, s3)                                                                \
    TL_PUT_SUM(at0, s0) TL_PUT_SUM(at1, s1) TL_PUT_SUM(at2, s2) TL_PUT_SUM(at3, s3)
#define TL_GATES(halfwords, none, terms, put)                                                                          \
    none TL_LOAD_STEP("a4", "%[w]", "%[row]") ".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", halfwords)    \
    TL_LOAD("s1", "%[v]") terms ".option pop\n" put
#define TL_THREE(what) TL_EACH(what, TL_ROW0) TL_EACH(what, TL_ROW1) TL_EACH(what, TL_ROW2)
#define TL_THREE_GATES                                                                                                 \
    TL_EACH(TL_ROWS_OF_GATE, "%[gate]", TL_ROW0) TL_EACH(TL_ROWS_OF_GATE, "%[gate]", TL_ROW1)                          \
    TL_EACH(TL_ROWS_OF_LAST, "%[back]", TL_ROW2)
#define TL_FOUR_GATES                                                                                                  \
    TL_EACH(TL_ROWS_OF_GATE, "%[gate]", TL_ROW0) TL_EACH(TL_ROWS_OF_GATE, "%[gate]", TL_ROW1)                          \
    TL_EACH(TL_ROWS_OF_GATE, "%[gate]", TL_ROW2) TL_EACH(TL_ROWS_OF_LAST, "%[back]", TL_ROW3)
#define TL_PUT_THREE                                                                                                   \
    TL_EACH(TL_PUT_GATE, "0", "4", "8", "12", TL_ROW0) TL_EACH(TL_PUT_GATE, "16", "20", "24", "28", TL_ROW1)           \
    TL_EACH(TL_PUT_GATE, "32", "36", "40", "44", TL_ROW2)
#define TL_SUMS_USED                                                                                                   \
    "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10",   \
        "a4", "a5"
/* The last gate before the third one. */
#define TL_PUT_FOUR                                                                                                    \
    TL_EACH(TL_PUT_GATE, "0", "4", "8", "12", TL_ROW0) TL_EACH(TL_PUT_GATE, "16", "20", "24", "28", TL_ROW1)           \
    TL_EACH(TL_PUT_GATE, "48", "52", "56", "60", TL_ROW2) TL_EACH(TL_PUT_GATE, "32", "36", "40", "44", TL_ROW3)
/* clang-format on */

/* out[4 g + i] = sum_k w[(g rows + i) row + k] v[k] for n > 0 terms, four units i, `gates` 3 or 4 (a literal); of four
 * gates the last two are exchanged. A load is one element ahead, of the first row's, which is still in w. */
static inline __attribute__((always_inline)) void tl_xpulp_gates(float *out, const float *w, int row, int rows,
                                                                 const float *v, int n, int gates)
{
    const int gate = 4 * (rows - 3) * row, back = 4 - 4 * ((gates - 1) * rows + 3) * row;
    if (gates == 3)
        __asm__ volatile(TL_GATES("50", TL_THREE(TL_NONE), TL_THREE_GATES, TL_PUT_THREE)
                         : [w] "+&r"(w), [v] "+&r"(v)
                         : [row] "r"(4 * row), [gate] "r"(gate), [back] "r"(back), [n] "r"(n), [out] "r"(out)
                         : TL_SUMS_USED);
    else
        __asm__ volatile(TL_GATES("66", TL_ROWS(TL_NONE), TL_FOUR_GATES, TL_PUT_FOUR)
                         : [w] "+&r"(w), [v] "+&r"(v)
                         : [row] "r"(4 * row), [gate] "r"(gate), [back] "r"(back), [n] "r"(n), [out] "r"(out)
                         : TL_SUMS_USED);
}

/* s[r] += sum_k line_r[k] v[k] for n > 0 terms and four lines, which move on. */
static inline __attribute__((always_inline)) void tl_xpulp_dots(float *s, const float **line, const tl_met *v, int n)
{
    float x = 0.0f, a, b = 0.0f;
    __asm__ volatile(
        TL_DOTS("18", TL_FOUR_LINES, "s3")
        : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [s3] "+r"(s[3]), [w0] "+r"(line[0]), [w1] "+r"(line[1]),
          [w2] "+r"(line[2]), [w3] "+r"(line[3]), [v] "+r"(v), [x] "+r"(x), [a] "=&r"(a), [b] "+r"(b)
        : [n] "r"(n)
        : "memory");
}

/* s[r] += sum_k w[r pitch + k step] v[k] for n > 0 terms and four lines; gives w behind the last term. */
static inline __attribute__((always_inline)) const float *tl_xpulp_four_lines(float *s, const float *w, int pitch,
                                                                              int step, const tl_met *v, int n)
{
    float x = 0.0f, a, b = 0.0f;
    __asm__ volatile(TL_DOTS("18", TL_FOUR_LINES_BY, "s3")
                     : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [s3] "+r"(s[3]), [w] "+r"(w), [v] "+r"(v),
                       [x] "+r"(x), [a] "=&r"(a), [b] "+r"(b)
                     : [one] "r"(4 * pitch), [back] "r"(4 * (step - 3 * pitch)), [n] "r"(n)
                     : "memory");
    return w;
}

/* The same for six. */
static inline __attribute__((always_inline)) const float *tl_xpulp_six_lines(float *s, const float *w, int pitch,
                                                                             int step, const tl_met *v, int n)
{
    float x = 0.0f, a, b = 0.0f;
    __asm__ volatile(TL_DOTS("26", TL_SIX_LINES_BY, "s5")
                     : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [s3] "+r"(s[3]), [s4] "+r"(s[4]),
                       [s5] "+r"(s[5]), [w] "+r"(w), [v] "+r"(v), [x] "+r"(x), [a] "=&r"(a), [b] "+r"(b)
                     : [one] "r"(4 * pitch), [back] "r"(4 * (step - 5 * pitch)), [n] "r"(n)
                     : "memory");
    return w;
}

/* to[r to_step] = from[r from_step] + sum_k w[r pitch + k step] v[k] for n > 0 terms and eight lines; gives w behind
 * the last term, of which nothing is read: that term is done behind the loop. */
static inline __attribute__((always_inline)) const float *tl_xpulp_eight_lines(float *to, int to_step,
                                                                               const float *from, int from_step,
                                                                               const float *w, int pitch, int step,
                                                                               const tl_met *v, int n)
{
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f, s5 = 0.0f, s6 = 0.0f, s7 = 0.0f;
    const int one = 4 * pitch, back = 4 * step - 7 * one;
    float x = 0.0f, a, b = 0.0f;
    __asm__ volatile(TL_LINE_BY("a", "one") : [w] "+r"(w), [a] "=r"(a) : [one] "r"(one) : "memory");
    if (n > 1)
        __asm__ volatile(TL_EIGHT_LOOP
                         : TL_EIGHT_SUMS, [w] "+r"(w), [v] "+r"(v), [x] "+r"(x), [a] "+r"(a), [b] "+r"(b)
                         : [one] "r"(one), [back] "r"(back), [n] "r"(n - 1)
                         : "memory");
    __asm__ volatile(TL_EIGHT_LAST
                     : TL_EIGHT_SUMS, [w] "+r"(w), [v] "+r"(v), [x] "+r"(x), [a] "+r"(a), [b] "+r"(b)
                     : [one] "r"(one), [back] "r"(back)
                     : "memory");
    __asm__ volatile(TL_PLAIN(TL_ADD_EIGHT)
                     : TL_EIGHT_SUMS, [a] "=&r"(a), [from] "+r"(from), [to] "+r"(to)
                     : [from_step] "r"(4 * from_step), [to_step] "r"(4 * to_step)
                     : "memory");
    return w;
}

/* The same for up to three: the last one stands for those that are missing. */
static inline __attribute__((always_inline)) const float *
tl_xpulp_few_lines(float *s, const float *w, int count, int pitch, int step, const tl_met *v, int n)
{
    const int one = count > 1 ? pitch : 0, two = count > 2 ? pitch : 0;
    float x = 0.0f, a, b = 0.0f;
    __asm__ volatile(TL_DOTS("14", TL_THREE_LINES_BY, "s2")
                     : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [w] "+r"(w), [v] "+r"(v), [x] "+r"(x),
                       [a] "=&r"(a), [b] "+r"(b)
                     : [one] "r"(4 * one), [two] "r"(4 * two), [back] "r"(4 * (step - one - two)), [n] "r"(n)
                     : "memory");
    return w;
}
#endif
#endif
