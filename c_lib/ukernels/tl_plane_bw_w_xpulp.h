/* Sums of a kernel row over a block of outputs by PULP's own instructions; internal to c_lib/kernels. A hardware loop
 * takes two outputs at a time, or all of a row of six, whose pixels pass one by one: each meets the first output by a
 * tap, the second by an earlier one, and so on. */
#ifndef TL_PLANE_BW_W_XPULP_H
#define TL_PLANE_BW_W_XPULP_H
#include "tl_plane_xpulp.h"

/* clang-format off */
#define TL_FIRST(sum, pixel) TL_MAC(sum, "s1", pixel)
#define TL_SECOND(sum, pixel) TL_MAC(sum, "s2", pixel)
#define TL_BOTH(first, second, pixel) TL_FIRST(first, pixel) TL_SECOND(second, pixel)
#define TL_PAIR_BEGIN TL_LOAD("s1", "%[k]") TL_PIXEL("s3", 0) TL_LOAD("s2", "%[k]") TL_PIXEL("s4", 1)

/* So many taps; of outputs two columns apart (S2). s3, s4 and s5 hold pixels in turn. */
#define TL_PAIR_OF_5                                                                                                   \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_BOTH("t1", "t0", "s4") TL_PIXEL("s3", 3)                   \
    TL_BOTH("t2", "t1", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t2", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t3", "s4") TL_SECOND("t4", "s5")
#define TL_PAIR_OF_7                                                                                                   \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_BOTH("t1", "t0", "s4") TL_PIXEL("s3", 3)                   \
    TL_BOTH("t2", "t1", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t2", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t3", "s4") TL_PIXEL("s3", 6) TL_BOTH("t5", "t4", "s5") TL_PIXEL("s4", 7)                            \
    TL_BOTH("t6", "t5", "s3") TL_SECOND("t6", "s4")
#define TL_PAIR_S2_OF_5                                                                                                \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_FIRST("t1", "s4") TL_PIXEL("s3", 3)                        \
    TL_BOTH("t2", "t0", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t1", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t2", "s4") TL_PIXEL("s3", 6) TL_SECOND("t3", "s5") TL_SECOND("t4", "s3")
#define TL_PAIR_S2_OF_7                                                                                                \
    TL_PAIR_BEGIN TL_FIRST("t0", "s3") TL_PIXEL("s5", 2) TL_FIRST("t1", "s4") TL_PIXEL("s3", 3)                        \
    TL_BOTH("t2", "t0", "s5") TL_PIXEL("s4", 4) TL_BOTH("t3", "t1", "s3") TL_PIXEL("s5", 5)                            \
    TL_BOTH("t4", "t2", "s4") TL_PIXEL("s3", 6) TL_BOTH("t5", "t3", "s5") TL_PIXEL("s4", 7)                            \
    TL_BOTH("t6", "t4", "s3") TL_PIXEL("s5", 8) TL_SECOND("t5", "s4") TL_SECOND("t6", "s5")
#define TL_ONE_OF_5                                                                                                    \
    TL_LOAD("s1", "%[k]") TL_PIXEL("s3", 0) TL_PIXEL("s4", 1) TL_FIRST("t0", "s3") TL_PIXEL("s5", 2)                   \
    TL_FIRST("t1", "s4") TL_PIXEL("s3", 3) TL_FIRST("t2", "s5") TL_PIXEL("s4", 4) TL_FIRST("t3", "s3")                 \
    TL_FIRST("t4", "s4")
#define TL_ONE_OF_7                                                                                                    \
    TL_ONE_OF_5 TL_PIXEL("s5", 5) TL_PIXEL("s3", 6) TL_FIRST("t5", "s5") TL_FIRST("t6", "s3")

/* Six outputs, in s6 .. s11. */
#define TL_MEETS(sum, output, pixel) TL_MAC("t" #sum, "s" #output, "s" #pixel)
#define TL_MEET_FIRST                                                                                                  \
    TL_LOAD("s6", "%[k]") TL_PIXEL("s3", 0) TL_LOAD("s7", "%[k]") TL_PIXEL("s4", 1) TL_MEETS(0, 6, 3)                  \
    TL_PIXEL("s5", 2) TL_MEETS(1, 6, 4) TL_MEETS(0, 7, 4) TL_PIXEL("s3", 3) TL_LOAD("s8", "%[k]") TL_MEETS(2, 6, 5)    \
    TL_MEETS(1, 7, 5) TL_PIXEL("s4", 4) TL_MEETS(0, 8, 5) TL_LOAD("s9", "%[k]") TL_MEETS(3, 6, 3) TL_MEETS(2, 7, 3)    \
    TL_PIXEL("s5", 5) TL_MEETS(1, 8, 3) TL_MEETS(0, 9, 3) TL_LOAD("s10", "%[k]") TL_MEETS(4, 6, 4) TL_MEETS(3, 7, 4)   \
    TL_PIXEL("s3", 6) TL_MEETS(2, 8, 4) TL_MEETS(1, 9, 4) TL_LOAD_STEP("s11", "%[k]", "%[y_by]") TL_MEETS(0, 10, 4)
#define TL_MEET_OF_5                                                                                                   \
    TL_MEET_FIRST TL_MEETS(4, 7, 5) TL_MEETS(3, 8, 5) TL_PIXEL("s4", 7) TL_MEETS(2, 9, 5) TL_MEETS(1, 10, 5)           \
    TL_MEETS(0, 11, 5) TL_MEETS(4, 8, 3) TL_MEETS(3, 9, 3) TL_PIXEL("s5", 8) TL_MEETS(2, 10, 3) TL_MEETS(1, 11, 3)     \
    TL_MEETS(4, 9, 4) TL_MEETS(3, 10, 4) TL_PIXEL("s3", 9) TL_MEETS(2, 11, 4) TL_MEETS(4, 10, 5) TL_MEETS(3, 11, 5)    \
    TL_MEETS(4, 11, 3) TL_LOAD_STEP("s3", "%[p]", "%[by]")
#define TL_MEET_OF_7                                                                                                   \
    TL_MEET_FIRST TL_MEETS(5, 6, 5) TL_MEETS(4, 7, 5) TL_PIXEL("s4", 7) TL_MEETS(3, 8, 5) TL_MEETS(2, 9, 5)            \
    TL_MEETS(1, 10, 5) TL_MEETS(0, 11, 5) TL_MEETS(6, 6, 3) TL_MEETS(5, 7, 3) TL_PIXEL("s5", 8) TL_MEETS(4, 8, 3)      \
    TL_MEETS(3, 9, 3) TL_MEETS(2, 10, 3) TL_MEETS(1, 11, 3) TL_MEETS(6, 7, 4) TL_MEETS(5, 8, 4) TL_PIXEL("s3", 9)      \
    TL_MEETS(4, 9, 4) TL_MEETS(3, 10, 4) TL_MEETS(2, 11, 4) TL_MEETS(6, 8, 5) TL_MEETS(5, 9, 5) TL_PIXEL("s4", 10)     \
    TL_MEETS(4, 10, 5) TL_MEETS(3, 11, 5) TL_MEETS(6, 9, 3) TL_MEETS(5, 10, 3) TL_PIXEL("s5", 11) TL_MEETS(4, 11, 3)   \
    TL_MEETS(6, 10, 4) TL_MEETS(5, 11, 4) TL_MEETS(6, 11, 5) TL_LOAD_STEP("s3", "%[p]", "%[by]")
#define TL_MEET_S2_FIRST                                                                                               \
    TL_LOAD("s6", "%[k]") TL_PIXEL("s3", 0) TL_LOAD("s7", "%[k]") TL_PIXEL("s4", 1) TL_MEETS(0, 6, 3)                  \
    TL_PIXEL("s5", 2) TL_MEETS(1, 6, 4) TL_PIXEL("s3", 3) TL_MEETS(2, 6, 5) TL_MEETS(0, 7, 5) TL_PIXEL("s4", 4)        \
    TL_MEETS(3, 6, 3) TL_MEETS(1, 7, 3) TL_PIXEL("s5", 5) TL_LOAD("s8", "%[k]") TL_MEETS(4, 6, 4) TL_MEETS(2, 7, 4)    \
    TL_PIXEL("s3", 6) TL_MEETS(0, 8, 4)
#define TL_MEET_S2_OF_5                                                                                                \
    TL_MEET_S2_FIRST TL_MEETS(3, 7, 5) TL_MEETS(1, 8, 5) TL_PIXEL("s4", 7) TL_LOAD("s9", "%[k]") TL_MEETS(4, 7, 3)     \
    TL_MEETS(2, 8, 3) TL_PIXEL("s5", 8) TL_MEETS(0, 9, 3) TL_MEETS(3, 8, 4) TL_MEETS(1, 9, 4) TL_PIXEL("s3", 9)        \
    TL_LOAD("s10", "%[k]") TL_MEETS(4, 8, 5) TL_MEETS(2, 9, 5) TL_PIXEL("s4", 10) TL_MEETS(0, 10, 5) TL_MEETS(3, 9, 3) \
    TL_MEETS(1, 10, 3) TL_PIXEL("s5", 11) TL_LOAD_STEP("s11", "%[k]", "%[y_by]") TL_MEETS(4, 9, 4) TL_MEETS(2, 10, 4)  \
    TL_PIXEL("s3", 12) TL_MEETS(0, 11, 4) TL_MEETS(3, 10, 5) TL_MEETS(1, 11, 5) TL_PIXEL("s4", 13) TL_MEETS(4, 10, 3)  \
    TL_MEETS(2, 11, 3) TL_PIXEL("s5", 14) TL_MEETS(3, 11, 4) TL_MEETS(4, 11, 5) TL_LOAD_STEP("s3", "%[p]", "%[by]")
#define TL_MEET_S2_OF_7                                                                                                \
    TL_MEET_S2_FIRST TL_MEETS(5, 6, 5) TL_MEETS(3, 7, 5) TL_PIXEL("s4", 7) TL_MEETS(1, 8, 5) TL_LOAD("s9", "%[k]")     \
    TL_MEETS(6, 6, 3) TL_MEETS(4, 7, 3) TL_PIXEL("s5", 8) TL_MEETS(2, 8, 3) TL_MEETS(0, 9, 3) TL_MEETS(5, 7, 4)        \
    TL_MEETS(3, 8, 4) TL_PIXEL("s3", 9) TL_MEETS(1, 9, 4) TL_LOAD("s10", "%[k]") TL_MEETS(6, 7, 5) TL_MEETS(4, 8, 5)   \
    TL_PIXEL("s4", 10) TL_MEETS(2, 9, 5) TL_MEETS(0, 10, 5) TL_MEETS(5, 8, 3) TL_MEETS(3, 9, 3) TL_PIXEL("s5", 11)     \
    TL_MEETS(1, 10, 3) TL_LOAD_STEP("s11", "%[k]", "%[y_by]") TL_MEETS(6, 8, 4) TL_MEETS(4, 9, 4) TL_PIXEL("s3", 12)   \
    TL_MEETS(2, 10, 4) TL_MEETS(0, 11, 4) TL_MEETS(5, 9, 5) TL_MEETS(3, 10, 5) TL_PIXEL("s4", 13) TL_MEETS(1, 11, 5)   \
    TL_MEETS(6, 9, 3) TL_MEETS(4, 10, 3) TL_PIXEL("s5", 14) TL_MEETS(2, 11, 3) TL_MEETS(5, 10, 4) TL_MEETS(3, 11, 4)   \
    TL_PIXEL("s3", 15) TL_MEETS(6, 10, 5) TL_MEETS(4, 11, 5) TL_PIXEL("s4", 16) TL_MEETS(5, 11, 3) TL_MEETS(6, 11, 4)  \
    TL_LOAD_STEP("s3", "%[p]", "%[by]")

#define TL_OF_5(what) what("t0", "0") what("t1", "4") what("t2", "8") what("t3", "12") what("t4", "16")
#define TL_OF_7(what) TL_OF_5(what) what("t5", "20") what("t6", "24")
#define TL_FROM_NOTHING(sum, at) "li " sum ", 0\n"
#define TL_ONTO_WEIGHT(sum, at) "lw s4, " at "(%[w])\nfadd.s " sum ", s4, " sum "\nsw " sum ", " at "(%[w])\n"

/* A loop ends with a load, as Spike's extension of the tests wants it: of what lies there, while p goes on. */
#define TL_SUMS(each, pair, bytes, halfwords, one)                                                                     \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" each(TL_FROM_NOTHING)                                  \
                     "1:\nbeqz %[pairs], 2f\n" TL_LOOP("%[pairs]", halfwords) pair TL_LOAD_BY(bytes, "s1", "%[p]")     \
                     "2:\nbnez %[odd], 4f\n3:\nadd %[p], %[p], %[down]\nadd %[k], %[k], %[y_down]\n"                   \
                     "addi %[rows], %[rows], -1\nbnez %[rows], 1b\nj 5f\n4:\n" one "j 3b\n"                            \
                     "5:\n" each(TL_ONTO_WEIGHT) ".option pop\n"                                                       \
                     : [p] "+r"(p), [k] "+r"(k), [rows] "+r"(rows)                                                     \
                     : [pairs] "r"(b->run >> 1), [odd] "r"(b->run & 1),                                                \
                       [down] "r"(4 * (b->down - step * (b->run & ~1))),                                               \
                       [y_down] "r"(4 * (b->y_down - b->run)), [w] "r"(b->w)                                           \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5")

/* For each kernel row: which rows of outputs meet the image by it, and their sums. half: what rounds a row of the image
 * up to one of outputs, and shifts it to that. */
#define TL_ROWS_OF_SIX(each, six, halfwords, taps, half)                                                               \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n"                                                        \
                     "1:\nlw s3, %[last]\nlw s4, %[outputs]\nadd s3, s3, %[above]\naddi s5, %[above], " half "\n"      \
                     "srai s3, s3, " half "\nsrai s5, s5, " half "\naddi s3, s3, 1\n" TL_MAX("s5", "s5", "zero")       \
                     TL_MIN("s3", "s3", "s4") "lw s4, %[y_down]\nmv %[p], %[in]\nmv %[k], %[y]\nsub s3, s3, s5\n"      \
                     TL_ADD_PRODUCT("%[p]", "s5", "%[by]") TL_ADD_PRODUCT("%[k]", "s5", "s4")                          \
                     each(TL_FROM_NOTHING) "blez s3, 2f\n" TL_LOOP("s3", halfwords) six each(TL_ONTO_WEIGHT)           \
                     "2:\nlw s3, %[columns]\n"                                                                         \
                     "addi %[above], %[above], -1\naddi %[rows], %[rows], -1\naddi %[w], %[w], 4*" taps "\n"           \
                     "add %[in], %[in], s3\nbnez %[rows], 1b\n.option pop\n"                                           \
                     : [in] "+r"(in), [w] "+r"(w), [rows] "+r"(rows), [above] "+r"(above), [p] "=&r"(p), [k] "=&r"(k)  \
                     : [y] "r"(y), [by] "r"(4 * step * columns), [y_by] "r"(4 * (y_pitch - 5)), [last] "m"(last),      \
                       [outputs] "m"(a->ho), [y_down] "m"(y_down), [columns] "m"(pitch)                                \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s3", "s4", "s5", "s6", "s7", "s8", "s9",   \
                       "s10", "s11")
/* clang-format on */

/* Of a whole image with six outputs a row: kernel rows from `first` on, which begin at w, by the copy's rows from `in`
 * on. */
static inline __attribute__((always_inline)) void tl_plane_rows_of_six(const tl_conv2d *a, const float *in, int columns,
                                                                       const float *y, int y_pitch, float *w, int first,
                                                                       int rows, int taps, int step)
{
    const float *p, *k;
    const int last = a->h - 1, y_down = 4 * y_pitch, pitch = 4 * columns;
    int above = a->pad_h - first;
    if (taps == 5 && step == 1)
        TL_ROWS_OF_SIX(TL_OF_5, TL_MEET_OF_5, "94", "5", "0");
    else if (taps == 5)
        TL_ROWS_OF_SIX(TL_OF_5, TL_MEET_S2_OF_5, "104", "5", "1");
    else if (step == 1)
        TL_ROWS_OF_SIX(TL_OF_7, TL_MEET_OF_7, "122", "7", "0");
    else
        TL_ROWS_OF_SIX(TL_OF_7, TL_MEET_S2_OF_7, "132", "7", "1");
}

/* At least one row. Literals: taps, step. */
static inline __attribute__((always_inline)) void tl_plane_meet(const tl_plane_block *b, int taps, int step)
{
    const float *p = b->in, *k = b->y;
    int rows = b->rows;
    if (taps == 5 && step == 1)
        TL_SUMS(TL_OF_5, TL_PAIR_OF_5, "8", "38", TL_ONE_OF_5);
    else if (taps == 5)
        TL_SUMS(TL_OF_5, TL_PAIR_S2_OF_5, "16", "40", TL_ONE_OF_5);
    else if (step == 1)
        TL_SUMS(TL_OF_7, TL_PAIR_OF_7, "8", "50", TL_ONE_OF_7);
    else
        TL_SUMS(TL_OF_7, TL_PAIR_S2_OF_7, "16", "52", TL_ONE_OF_7);
}
#endif
