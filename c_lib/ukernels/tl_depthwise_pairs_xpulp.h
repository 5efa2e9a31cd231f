/* Depthwise 3 x 3 convolutions of halves by PULP's own instructions; internal to c_lib/kernels. */
#ifndef TL_DEPTHWISE_PAIRS_XPULP_H
#define TL_DEPTHWISE_PAIRS_XPULP_H
#include "tl_pair.h"
#include "tl_xpulp.h"

/* Some rows of outputs, from a first window on. */
typedef struct {
    const tl_pair *in, *w;
    char *to;
    float start;
    int rows, halves;
    int pitch, down; /* words to the next row; elements to the next row of outputs */
} tl_halves_columns;

#ifdef TL_XF16AUXVEC
/* clang-format off */
/* Rows of halves, two at a time and, of an odd number, one. At least three of each. */
#define TL_TWO_HALVES TL_LOAD_HALF("%[a]", "%[from]") TL_LOAD_HALF("%[b]", "%[from]")                                  \
    TL_STORE_HALF("%[a]", "%[to]") TL_STORE_HALF("%[b]", "%[to]")
#define TL_LAST_HALF TL_LOAD_HALF_STEP("%[a]", "%[from]", "%[over]") TL_STORE_HALF_STEP("%[a]", "%[to]", "%[beside]")
#define TL_LAST_HALVES                                                                                                 \
    TL_LOAD_HALF("%[a]", "%[from]") TL_LOAD_HALF_STEP("%[b]", "%[from]", "%[over]")                                    \
    TL_STORE_HALF("%[a]", "%[to]") TL_STORE_HALF_STEP("%[b]", "%[to]", "%[beside]")
#define TL_COPY_HALVES(halfwords, last)                                                                                \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_OUTER_LOOP("%[rows]", halfwords)                    \
                     TL_LOOP("%[twos]", "8") TL_TWO_HALVES last ".option pop\n"                                        \
                     : [from] "+r"(from), [to] "+r"(to), [a] "=&r"(a), [b] "=&r"(b)                                    \
                     : [rows] "r"(rows), [twos] "r"((count - 1) / 2), [over] "r"(2 * (pitch - count + 1)),             \
                       [beside] "r"(2 * (columns - count + 1))                                                         \
                     : "memory")

static inline __attribute__((always_inline)) void tl_copy_half_rows(const tl_half *from, int pitch, tl_half *to,
                                                                    int columns, int count, int rows)
{
    uint32_t a, b;
    if (count % 2)
        TL_COPY_HALVES("14", TL_LAST_HALF);
    else
        TL_COPY_HALVES("18", TL_LAST_HALVES);
}

/* Two rows of outputs meet four rows of two words, of which s9, s10 and s11, a7 have two at a time. Pixels that a pair
 * has left over in two rows take the place of one that is not wanted any more. */
#define TL_WORDS(a, b) TL_LOAD(a, "%[in]") TL_LOAD_STEP(b, "%[in]", "%[by]")
#define TL_BEGINS(sum) "mv " sum ", %[start]\n"
#define TL_UPPER(to, b) TL_CHOOSE_HALVES(to, b, "a6")
/* t0 to t4: what even columns are multiplied by; t5 to s4: odd ones. s5, s6 and s7, s8: sums of an even and an odd one.
 * Two cores share a float unit: what it does not do stands between what it does. */
#define TL_TWO_COLUMNS(round, first, shift, second)                                                                    \
    TL_WORDS("s9", "s10") TL_BEGINS("s5") TL_DOT("s5", "t0", "s9") TL_BEGINS("s6") TL_DOT("s6", "t5", "s10")           \
    TL_WORDS("s11", "a7") TL_DOT("s5", "t1", "s11") TL_BEGINS("s7") TL_DOT("s6", "t6", "a7")                           \
    TL_PAIR_OF("s10", "s10", "a7") TL_DOT("s7", "t0", "s11") TL_UPPER("s9", "s11") TL_BEGINS("s8")                     \
    TL_DOT("s5", "t3", "s10") TL_DOT("s6", "s3", "s9") TL_LOAD("s9", "%[in]") TL_DOT("s8", "t5", "a7")                 \
    TL_LOAD_STEP("s10", "%[in]", "%[by]") TL_DOT("s7", "t1", "s9") TL_DOT("s5", "t2", "s9")                            \
    TL_PAIR_OF("a7", "a7", "s10") TL_DOT("s8", "t6", "s10") TL_UPPER("s11", "s9") TL_DOT("s6", "s2", "s10")            \
    TL_DOT("s5", "t4", "s10") TL_DOT("s6", "s4", "s9") TL_LOAD("s9", "%[in]") TL_DOT("s7", "t3", "a7")                 \
    TL_LOAD_STEP("s10", "%[in]", "%[by]") round("s5", "s6") first("s5") TL_DOT("s8", "s3", "s11") shift("s5")          \
    TL_DOT("s7", "t2", "s9") second("s5", "s6") TL_DOT("s8", "s2", "s10") "add %[in], %[in], %[back]\n"                \
    TL_DOT("s7", "t4", "s10") TL_DOT("s8", "s4", "s9") round("s7", "s8") first("s7") shift("s7") second("s7", "s8")
#define TL_ONE_COLUMN(round, first, shift, second)                                                                     \
    TL_WORDS("s9", "s10") TL_BEGINS("s5") TL_DOT("s5", "t0", "s9") TL_WORDS("s11", "a7") TL_DOT("s5", "t1", "s11")     \
    TL_BEGINS("s6") TL_DOT("s6", "t0", "s11") TL_PAIR_OF("s10", "s10", "a7") TL_LOAD("s9", "%[in]")                    \
    TL_DOT("s5", "t3", "s10") TL_LOAD_STEP("s10", "%[in]", "%[by]") TL_DOT("s6", "t1", "s9")                           \
    TL_PAIR_OF("a7", "a7", "s10") TL_DOT("s5", "t2", "s9") TL_LOAD("s9", "%[in]") TL_DOT("s6", "t3", "a7")             \
    TL_DOT("s5", "t4", "s10") TL_LOAD_STEP("s10", "%[in]", "%[by]") TL_DOT("s6", "t2", "s9")                           \
    "add %[in], %[in], %[back]\n" TL_DOT("s6", "t4", "s10") round("s5", "s6") first("s5") shift("s5")                  \
    second("s5", "s6")
/* Of stride 2: two rows of outputs meet five. */
#define TL_ONE_COLUMN_S2(round, first, shift, second)                                                                  \
    TL_WORDS("s9", "s10") TL_BEGINS("s5") TL_WORDS("s11", "a7") TL_DOT("s5", "t0", "s9")                               \
    TL_PAIR_OF("s10", "s10", "a7") TL_LOAD("s9", "%[in]") TL_DOT("s5", "t1", "s11")                                    \
    TL_LOAD_STEP("a7", "%[in]", "%[by]") TL_BEGINS("s6") TL_DOT("s5", "t3", "s10") TL_LOAD("s11", "%[in]")             \
    TL_DOT("s6", "t0", "s9") TL_LOAD_STEP("s10", "%[in]", "%[by]") TL_DOT("s5", "t2", "s9")                            \
    TL_LOAD("s9", "%[in]") TL_DOT("s6", "t1", "s11") TL_PAIR_OF("s10", "a7", "s10") TL_DOT("s5", "t4", "a7")           \
    TL_LOAD_STEP("a7", "%[in]", "%[by]") TL_DOT("s6", "t3", "s10") "add %[in], %[in], %[back]\n"                       \
    TL_DOT("s6", "t2", "s9") TL_DOT("s6", "t4", "a7") round("s5", "s6") first("s5") shift("s5") second("s5", "s6")
/* The last row of an odd number. */
#define TL_LAST_OF_TWO(round, first, shift, second)                                                                    \
    TL_WORDS("s9", "s10") TL_BEGINS("s5") TL_DOT("s5", "t0", "s9") TL_BEGINS("s6") TL_DOT("s6", "t5", "s10")           \
    TL_WORDS("s11", "a7") TL_DOT("s5", "t1", "s11") TL_PAIR_OF("s10", "s10", "a7") TL_DOT("s6", "t6", "a7")            \
    TL_UPPER("s9", "s11") TL_DOT("s5", "t3", "s10") TL_DOT("s6", "s3", "s9") TL_WORDS("s9", "s10")                     \
    TL_DOT("s5", "t2", "s9") TL_DOT("s6", "s2", "s10") TL_DOT("s5", "t4", "s10") TL_DOT("s6", "s4", "s9")              \
    round("s5", "s6") first("s5") shift("s5") second("s5", "s6")
#define TL_LAST_OF_ONE(round, first, shift, second)                                                                    \
    TL_WORDS("s9", "s10") TL_BEGINS("s5") TL_DOT("s5", "t0", "s9") TL_WORDS("s11", "a7") TL_DOT("s5", "t1", "s11")     \
    TL_PAIR_OF("s10", "s10", "a7") TL_LOAD("s9", "%[in]") TL_DOT("s5", "t3", "s10")                                    \
    TL_LOAD_STEP("s10", "%[in]", "%[by]") TL_DOT("s5", "t2", "s9") TL_DOT("s5", "t4", "s10") round("s5", "s5")         \
    first("s5")
/* As halves or as floats, beside each other or one below the other. */
#define TL_PUT_NEXT_HALF(e) TL_STORE_HALF(e, "%[to]")
#define TL_PUT_HALF(e) TL_STORE_HALF_STEP(e, "%[to]", "%[down]")
#define TL_SHIFT_HALF(e) "srli " e ", " e ", 16\n"
#define TL_PUT_SHIFTED(e, o) TL_PUT_HALF(e)
#define TL_LEAVE_BOTH(e, o)
#define TL_LEAVE(e)
#define TL_PUT_NEXT_FLOAT(e) TL_STORE_ON(e, "%[to]")
#define TL_PUT_FLOAT(e) TL_STORE_STEP(e, "%[to]", "%[down]")
#define TL_PUT_OTHER(e, o) TL_PUT_FLOAT(o)
#define TL_ROUND_BOTH(e, o) TL_PACK(e, e, o)
#define TL_HALVES_BESIDE TL_ROUND_BOTH, TL_PUT_NEXT_HALF, TL_SHIFT_HALF, TL_PUT_SHIFTED
#define TL_HALVES_BELOW TL_ROUND_BOTH, TL_PUT_HALF, TL_SHIFT_HALF, TL_PUT_SHIFTED
#define TL_FLOATS_BESIDE TL_LEAVE_BOTH, TL_PUT_NEXT_FLOAT, TL_LEAVE, TL_PUT_OTHER
#define TL_FLOATS_BELOW TL_LEAVE_BOTH, TL_PUT_FLOAT, TL_LEAVE, TL_PUT_OTHER
#define TL_FOR_ODD_COLUMNS                                                                                             \
    "lui a6, 0x30\naddi a6, a6, 1\n"                                                                                   \
    "lw t5, 20(%[n])\nlw t6, 24(%[n])\nlw s2, 28(%[n])\nlw s3, 32(%[n])\nlw s4, 36(%[n])\n"
#define TL_DOWN_COLUMNS(more, halfwords, column, last, rows, step, bytes)                                              \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" more                                                   \
                     "lw t0, 0(%[n])\nlw t1, 4(%[n])\nlw t2, 8(%[n])\nlw t3, 12(%[n])\nlw t4, 16(%[n])\n"              \
                     "1:\nlw %[n], %[pairs]\nlw %[in], %[first]\nlw %[to], %[out]\nbeqz %[n], 2f\n"                    \
                     TL_LOOP("%[n]", halfwords) column                                                                 \
                     "2:\nlw s9, %[odd]\nbeqz s9, 3f\n" last                                                           \
                     "3:\nlw s10, %[first]\nlw s11, %[out]\nlw a7, %[columns]\naddi s10, s10, 4\n"                     \
                     "addi s11, s11, " bytes "\naddi a7, a7, -1\nsw s10, %[first]\nsw s11, %[out]\n"                   \
                     "sw a7, %[columns]\nbnez a7, 1b\n.option pop\n"                                                   \
                     : [in] "=&r"(in), [to] "=&r"(to), [n] "+r"(w), [first] "+m"(first), [out] "+m"(out),              \
                       [columns] "+m"(columns)                                                                         \
                     : [by] "r"(row - 4), [back] "r"(-(rows) * row), [down] "r"(step), [start] "r"(c->start),          \
                       [pairs] "m"(pairs), [odd] "m"(odd)                                                              \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8",   \
                       "s9", "s10", "s11", "a6", "a7")

/* So many twos of columns of outputs, or one; of stride 2 so many columns. Literals: both, stride. */
static inline
    __attribute__((always_inline)) void tl_pairs_down(const tl_halves_columns *c, int columns, int both, int stride)
{
    const int row = 4 * c->pitch, out_row = (c->halves ? 2 : 4) * c->down, pairs = c->rows / 2, odd = c->rows % 2;
    const tl_pair *first = c->in, *in, *w = c->w;
    char *out = c->to, *to;
    if (stride == 2 && c->halves)
        TL_DOWN_COLUMNS("", "58", TL_EACH(TL_ONE_COLUMN_S2, TL_HALVES_BELOW), TL_EACH(TL_LAST_OF_ONE, TL_HALVES_BELOW),
                        1, out_row, "2");
    else if (stride == 2)
        TL_DOWN_COLUMNS("", "54", TL_EACH(TL_ONE_COLUMN_S2, TL_FLOATS_BELOW), TL_EACH(TL_LAST_OF_ONE, TL_FLOATS_BELOW),
                        1, out_row, "4");
    else if (both && c->halves)
        TL_DOWN_COLUMNS(TL_FOR_ODD_COLUMNS, "90", TL_EACH(TL_TWO_COLUMNS, TL_HALVES_BESIDE),
                        TL_EACH(TL_LAST_OF_TWO, TL_HALVES_BESIDE), 2, out_row - 2, "4");
    else if (both)
        TL_DOWN_COLUMNS(TL_FOR_ODD_COLUMNS, "82", TL_EACH(TL_TWO_COLUMNS, TL_FLOATS_BESIDE),
                        TL_EACH(TL_LAST_OF_TWO, TL_FLOATS_BESIDE), 2, out_row - 4, "8");
    else if (c->halves)
        TL_DOWN_COLUMNS("", "54", TL_EACH(TL_ONE_COLUMN, TL_HALVES_BELOW), TL_EACH(TL_LAST_OF_ONE, TL_HALVES_BELOW),
                        2, out_row, "4");
    else
        TL_DOWN_COLUMNS("", "50", TL_EACH(TL_ONE_COLUMN, TL_FLOATS_BELOW), TL_EACH(TL_LAST_OF_ONE, TL_FLOATS_BELOW),
                        2, out_row, "8");
}

/* t0 to s3: nine sums. Two outputs meet a word of each of three rows by the first tap of a kernel row, the next word by
 * the last one, and by the middle one the pixels between, which take the place of the first word. */
#define TL_MEET(y, a0, a1, a2, b0, b1, b2)                                                                             \
    y TL_DOT("t0", "s10", a0) TL_LOAD(b2, "%[x2]") TL_DOT("t3", "s10", a1) TL_CHOOSE_HALVES(a0, b0, "a7")              \
    TL_DOT("t6", "s10", a2) TL_CHOOSE_HALVES(a1, b1, "a7") TL_DOT("t1", "s10", a0) TL_CHOOSE_HALVES(a2, b2, "a7")      \
    TL_DOT("t4", "s10", a1) TL_DOT("t2", "s10", b0) TL_DOT("s2", "s10", a2) TL_DOT("t5", "s10", b1)                    \
    TL_DOT("s3", "s10", b2)
#define TL_OUTPUTS(b0, b1, second)                                                                                     \
    TL_LOAD_HALF("s10", "%[y]") TL_LOAD(b0, "%[x0]") second TL_LOAD(b1, "%[x1]") TL_PAIR_OF("s10", "s10", "s11")
#define TL_NEXT_OUTPUTS(b0, b1) TL_OUTPUTS(b0, b1, TL_LOAD_HALF("s11", "%[y]"))
#define TL_LAST_OUTPUTS(b0, b1) TL_OUTPUTS(b0, b1, TL_LOAD_HALF_STEP("s11", "%[y]", "%[down]"))
#define TL_LAST_OUTPUT(b0, b1)                                                                                         \
    TL_LOAD_HALF_STEP("s10", "%[y]", "%[down]") TL_LOAD(b0, "%[x0]") TL_LOAD(b1, "%[x1]")
#define TL_MEET_FROM_A(outputs) TL_MEET(outputs("s7", "s8"), "s4", "s5", "s6", "s7", "s8", "s9")
#define TL_MEET_FROM_B(outputs) TL_MEET(outputs("s4", "s5"), "s7", "s8", "s9", "s4", "s5", "s6")
#define TL_GRADIENT_ROWS(halfwords, last)                                                                              \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\nlui a7, 0x20\naddi a7, a7, 1\n"                          \
                     "lw t0, 0(%[w])\nlw t1, 4(%[w])\nlw t2, 8(%[w])\nlw t3, 12(%[w])\nlw t4, 16(%[w])\n"              \
                     "lw t5, 20(%[w])\nlw t6, 24(%[w])\nlw s2, 28(%[w])\nlw s3, 32(%[w])\n"                            \
                     TL_OUTER_LOOP("%[rows]", halfwords)                                                               \
                     TL_LOAD("s4", "%[x0]") TL_LOAD("s5", "%[x1]") TL_LOAD("s6", "%[x2]") "beqz %[twos], 1f\n"         \
                     TL_LOOP("%[twos]", "72") TL_MEET_FROM_A(TL_NEXT_OUTPUTS) TL_MEET_FROM_B(TL_NEXT_OUTPUTS)          \
                     "1:\n" last                                                                                       \
                     "sw t0, 0(%[w])\nsw t1, 4(%[w])\nsw t2, 8(%[w])\nsw t3, 12(%[w])\nsw t4, 16(%[w])\n"              \
                     "sw t5, 20(%[w])\nsw t6, 24(%[w])\nsw s2, 28(%[w])\nsw s3, 32(%[w])\n.option pop\n"               \
                     : [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [y] "+r"(y)                                        \
                     : [w] "r"(sums), [rows] "r"(rows), [twos] "r"((words - 1) / 2),                                   \
                       [down] "r"(2 * (y_pitch - count + 1))                                                           \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8",   \
                       "s9", "s10", "s11", "a7")
/* Of stride 2 they meet three words of a row: lower halves of the first two, their upper ones, lower ones of the last
 * two. The third is the next outputs' first. */
#define TL_MEET_S2(y)                                                                                                  \
    y TL_LOAD("s7", "%[x0]") TL_LOAD("s8", "%[x1]") TL_LOAD("s9", "%[x2]") TL_PAIR_OF("s11", "s4", "s7")               \
    TL_CHOOSE_HALVES("s4", "s7", "a7") TL_DOT("t0", "s10", "s11") TL_PAIR_OF("s11", "s5", "s8")                        \
    TL_DOT("t1", "s10", "s4") TL_CHOOSE_HALVES("s5", "s8", "a7") TL_LOAD("s4", "%[x0]") TL_DOT("t3", "s10", "s11")     \
    TL_PAIR_OF("s11", "s6", "s9") TL_DOT("t4", "s10", "s5") TL_CHOOSE_HALVES("s6", "s9", "a7")                         \
    TL_LOAD("s5", "%[x1]") TL_DOT("t6", "s10", "s11") TL_PAIR_OF("s7", "s7", "s4") TL_DOT("s2", "s10", "s6")           \
    TL_LOAD("s6", "%[x2]") TL_PAIR_OF("s8", "s8", "s5") TL_DOT("t2", "s10", "s7") TL_PAIR_OF("s9", "s9", "s6")         \
    TL_DOT("t5", "s10", "s8") TL_DOT("s3", "s10", "s9")
#define TL_TWO_OUTPUTS TL_LOAD_HALF("s10", "%[y]") TL_LOAD_HALF("s11", "%[y]") TL_PAIR_OF("s10", "s10", "s11")
#define TL_ONE_OUTPUT TL_LOAD_HALF("s10", "%[y]")
#define TL_GRADIENT_ROWS_S2(halfwords, last)                                                                           \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\nlui a7, 0x30\naddi a7, a7, 1\n"                          \
                     "lw t0, 0(%[w])\nlw t1, 4(%[w])\nlw t2, 8(%[w])\nlw t3, 12(%[w])\nlw t4, 16(%[w])\n"              \
                     "lw t5, 20(%[w])\nlw t6, 24(%[w])\nlw s2, 28(%[w])\nlw s3, 32(%[w])\n"                            \
                     TL_OUTER_LOOP("%[rows]", halfwords)                                                               \
                     TL_LOAD("s4", "%[x0]") TL_LOAD("s5", "%[x1]") TL_LOAD("s6", "%[x2]") "beqz %[pairs], 1f\n"        \
                     TL_LOOP("%[pairs]", "54") TL_MEET_S2(TL_TWO_OUTPUTS)                                              \
                     "1:\n" last "add %[x0], %[x0], %[by]\nadd %[x1], %[x1], %[by]\nadd %[x2], %[x2], %[by]\n"         \
                     "add %[y], %[y], %[down]\n"                                                                       \
                     "sw t0, 0(%[w])\nsw t1, 4(%[w])\nsw t2, 8(%[w])\nsw t3, 12(%[w])\nsw t4, 16(%[w])\n"              \
                     "sw t5, 20(%[w])\nsw t6, 24(%[w])\nsw s2, 28(%[w])\nsw s3, 32(%[w])\n.option pop\n"               \
                     : [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [y] "+r"(y)                                        \
                     : [w] "r"(sums), [rows] "r"(rows), [pairs] "r"(count / 2), [by] "r"(4 * pitch),                   \
                       [down] "r"(2 * (y_pitch - count))                                                               \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8",   \
                       "s9", "s10", "s11", "a7")
/* clang-format on */

/* `count` outputs of each row, of whose words the copy has one more. */
static inline void tl_pairs_meet(float *sums, const tl_pair *x0, const tl_half *y, int y_pitch, int count, int rows)
{
    const int words = (count + 1) / 2;
    const tl_pair *x1 = x0 + words + 1, *x2 = x1 + words + 1;
    if (words % 2 && count % 2)
        TL_GRADIENT_ROWS("114", TL_MEET_FROM_A(TL_LAST_OUTPUT));
    else if (words % 2)
        TL_GRADIENT_ROWS("118", TL_MEET_FROM_A(TL_LAST_OUTPUTS));
    else if (count % 2)
        TL_GRADIENT_ROWS("150", TL_MEET_FROM_A(TL_NEXT_OUTPUTS) TL_MEET_FROM_B(TL_LAST_OUTPUT));
    else
        TL_GRADIENT_ROWS("154", TL_MEET_FROM_A(TL_NEXT_OUTPUTS) TL_MEET_FROM_B(TL_LAST_OUTPUTS));
}

/* The same of stride 2; pitch: words of a row of the copy. */
static inline void tl_pairs_meet_s2(float *sums, const tl_pair *x0, int pitch, const tl_half *y, int y_pitch, int count,
                                    int rows)
{
    const tl_pair *x1 = x0 + pitch, *x2 = x1 + pitch;
    if (count % 2)
        TL_GRADIENT_ROWS_S2("122", TL_MEET_S2(TL_ONE_OUTPUT));
    else
        TL_GRADIENT_ROWS_S2("72", );
}
#endif
#endif
