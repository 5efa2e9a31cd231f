/* Nine sums of a depthwise 3 x 3 weight gradient by PULP's own instructions; internal to c_lib/kernels. Rows have a
 * column of padding at either end. A hardware loop goes along a row of dL/dy: each image column is loaded once, and
 * meets the outputs that see it. */
#ifndef TL_DEPTHWISE_BW_W_XPULP_H
#define TL_DEPTHWISE_BW_W_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* Rows of dL/dy. Those that meet three image rows go together; the first one's upper and the last one's lower image row
 * may be outside: it is a zero then that stays where it is. */
typedef struct {
    const float *zero;
    float *sums;        /* nine, to which those of the rows are added */
    int top, bottom;    /* bytes from a column to the next, of the first rows */
    int rows;           /* that go together first */
    int inner, outside; /* rows behind these that have all of the image's, and whose lower one is outside */
    int middle;         /* columns that all taps of a kernel row meet; with TL_STEP_3X3 2, outputs but the first */
    int last;           /* with TL_STEP_3X3 2: whether a column is behind those */
    int pitch;          /* bytes from an image row to the next */
    int down, y_down;   /* bytes from the end of a row to the next one */
} tl_depthwise_rows;

/* clang-format off */
#define TL_TAPS(what)                                                                                                  \
    what("t0", "0") what("t1", "4") what("t2", "8") what("t3", "12") what("t4", "16") what("t5", "20")                 \
    what("t6", "24") what("s2", "28") what("s3", "32")
#define TL_SUM_NONE(sum, at) "li " sum ", 0\n"
#define TL_SUM_ON(sum, at) "lw s5, " at "(s4)\nfadd.s " sum ", s5, " sum "\nsw " sum ", " at "(s4)\n"
/* Elements of dL/dy, and of the three rows. */
#define TL_DY(to) TL_LOAD(to, "%[y]")
#define TL_TOP TL_LOAD_STEP("s7", "%[p0]", "%[by0]")
#define TL_MIDDLE TL_LOAD("s8", "%[p1]")
#define TL_BOTTOM TL_LOAD_STEP("s9", "%[p2]", "%[by2]")

#if TL_STEP_3X3 == 1
/* s4, s5 and s6: the outputs that see a column through its last, middle and first tap. s7: the top of the next. */
#define TL_ALONG                                                                                                       \
    TL_DY("s4") TL_TOP TL_DY("s5") TL_MIDDLE TL_MAC("t1", "s4", "s7") TL_MAC("t0", "s5", "s7") TL_BOTTOM               \
    TL_MAC("t4", "s4", "s8") TL_MAC("t3", "s5", "s8") TL_TOP TL_MAC("s2", "s4", "s9") TL_MAC("t6", "s5", "s9")         \
    "beqz %[middle], 2f\n" TL_LOOP("%[middle]", "30")                                                                  \
    TL_MIDDLE TL_MAC("t2", "s4", "s7") TL_MAC("t1", "s5", "s7") TL_DY("s6") TL_MAC("t5", "s4", "s8")                   \
    TL_MAC("t4", "s5", "s8") TL_BOTTOM TL_MAC("t0", "s6", "s7") TL_MAC("t3", "s6", "s8") TL_MAC("s3", "s4", "s9")      \
    "mv s4, s5\n" TL_MAC("s2", "s5", "s9") "mv s5, s6\n" TL_MAC("t6", "s6", "s9") TL_TOP                               \
    "2:\n" TL_MIDDLE TL_MAC("t2", "s4", "s7") TL_MAC("t1", "s5", "s7") TL_BOTTOM TL_MAC("t5", "s4", "s8")              \
    TL_MAC("t4", "s5", "s8") TL_MAC("s3", "s4", "s9") TL_MAC("s2", "s5", "s9")
#else
/* s4 and s5: an output and the next one, which share a column. */
#define TL_ALONG                                                                                                       \
    TL_DY("s4") TL_TOP TL_MIDDLE TL_MAC("t1", "s4", "s7") TL_BOTTOM TL_MAC("t4", "s4", "s8") TL_TOP                    \
    TL_MAC("s2", "s4", "s9") "beqz %[middle], 2f\n" TL_LOOP("%[middle]", "34")                                         \
    TL_DY("s5") TL_MIDDLE TL_MAC("t2", "s4", "s7") TL_MAC("t0", "s5", "s7") TL_BOTTOM TL_MAC("t5", "s4", "s8")         \
    TL_MAC("t3", "s5", "s8") TL_TOP TL_MAC("s3", "s4", "s9") TL_MAC("t6", "s5", "s9") TL_MIDDLE                        \
    TL_MAC("t1", "s5", "s7") TL_BOTTOM TL_MAC("t4", "s5", "s8") "mv s4, s5\n" TL_MAC("s2", "s5", "s9") TL_TOP          \
    "2:\nbeqz %[last], 3f\n" TL_MIDDLE TL_MAC("t2", "s4", "s7") TL_BOTTOM TL_MAC("t5", "s4", "s8")                     \
    TL_MAC("s3", "s4", "s9") "j 4f\n3:\nsub %[p0], %[p0], %[by0]\n4:\n"
#endif

#define TL_ANY_ROWS                                                                                                    \
    TL_ALONG                                                                                                           \
    "add %[p0], %[p0], %[down]\nadd %[p1], %[p1], %[down]\nadd %[p2], %[p2], %[down]\nadd %[y], %[y], %[y_down]\n"     \
    "addi %[rows], %[rows], -1\nbnez %[rows], 1b\n"

#if TL_STEP_3X3 == 1
/* Rows of so many columns, which a hardware loop goes down: the last column's loads go on to the next row. It ends with
 * one of what is there already. */
#define TL_FIRST_COLUMN                                                                                                \
    TL_DY("s4") TL_TOP TL_DY("s5") TL_MIDDLE TL_MAC("t1", "s4", "s7") TL_MAC("t0", "s5", "s7") TL_BOTTOM               \
    TL_MAC("t4", "s4", "s8") TL_MAC("t3", "s5", "s8") TL_TOP TL_MAC("s2", "s4", "s9") TL_MAC("t6", "s5", "s9")
#define TL_COLUMN(last, middle, first, dy, next)                                                                       \
    TL_MIDDLE TL_MAC("t2", last, "s7") TL_MAC("t1", middle, "s7") dy(first) TL_MAC("t5", last, "s8")                   \
    TL_MAC("t4", middle, "s8") TL_BOTTOM TL_MAC("t0", first, "s7") TL_MAC("t3", first, "s8") next                      \
    TL_MAC("s3", last, "s9") TL_MAC("s2", middle, "s9") TL_MAC("t6", first, "s9")
#define TL_LAST_COLUMN(last, middle)                                                                                   \
    TL_LOAD_STEP("s8", "%[p1]", "%[down]") TL_MAC("t2", last, "s7") TL_MAC("t1", middle, "s7")                         \
    TL_LOAD_STEP("s9", "%[p2]", "%[down]") TL_MAC("t5", last, "s8") TL_MAC("t4", middle, "s8")                         \
    TL_MAC("s3", last, "s9") TL_MAC("s2", middle, "s9") TL_LOAD_STEP("s7", "%[p0]", "%[down]")
#define TL_LAST_DY(to) TL_LOAD_STEP(to, "%[y]", "%[y_down]")
#define TL_LAST_TOP "lw s7, 0(%[p0])\n"
#define TL_ROWS_OF_5                                                                                                   \
    TL_LOOP("%[rows]", "120") TL_FIRST_COLUMN TL_COLUMN("s4", "s5", "s6", TL_DY, TL_TOP)                               \
    TL_COLUMN("s5", "s6", "s4", TL_DY, TL_TOP) TL_COLUMN("s6", "s4", "s5", TL_LAST_DY, TL_LAST_TOP)                    \
    TL_LAST_COLUMN("s4", "s5")
#define TL_ROWS_OF_6                                                                                                   \
    TL_LOOP("%[rows]", "146") TL_FIRST_COLUMN TL_COLUMN("s4", "s5", "s6", TL_DY, TL_TOP)                               \
    TL_COLUMN("s5", "s6", "s4", TL_DY, TL_TOP) TL_COLUMN("s6", "s4", "s5", TL_DY, TL_TOP)                              \
    TL_COLUMN("s4", "s5", "s6", TL_LAST_DY, TL_LAST_TOP) TL_LAST_COLUMN("s5", "s6")
#endif

/* `more` bytes: what rows go on by from their last column, not from behind it. */
#define TL_SUM_ROWS(some_rows, more)                                                                                   \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_TAPS(TL_SUM_NONE) "1:\n" some_rows                  \
                     "lw s4, %[pitch]\nlw %[rows], %[inner]\nli %[by0], 4\nsw zero, %[inner]\nsub %[p0], %[p1], s4\n"  \
                     "bnez %[rows], 1b\nlw %[rows], %[outside]\nlw %[p2], %[zero]\nsw zero, %[outside]\n"              \
                     "li %[by2], 0\nbnez %[rows], 1b\nlw s4, %[sums]\n" TL_TAPS(TL_SUM_ON) ".option pop\n"             \
                     : [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [y] "+r"(y), [rows] "+r"(rows), [by0] "+r"(top),   \
                       [by2] "+r"(bottom), [inner] "+m"(r->inner), [outside] "+m"(r->outside)                          \
                     : [middle] "r"(r->middle), [last] "r"(r->last), [down] "r"(r->down + (more)),                     \
                       [y_down] "r"(r->y_down + (more)), [pitch] "m"(r->pitch), [zero] "m"(r->zero),                   \
                       [sums] "m"(r->sums)                                                                             \
                     : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8",   \
                       "s9")
/* clang-format on */

/* p0, p1, p2: the three image rows that the first one of dL/dy, y, meets. */
static inline __attribute__((always_inline)) void tl_depthwise_meet(tl_depthwise_rows *r, const float *p0,
                                                                    const float *p1, const float *p2, const float *y)
{
    int rows = r->rows, top = r->top, bottom = r->bottom;
#if TL_STEP_3X3 == 1
    if (r->middle == 3)
        TL_SUM_ROWS(TL_ROWS_OF_5, 4);
    else if (r->middle == 4)
        TL_SUM_ROWS(TL_ROWS_OF_6, 4);
    else
#endif
        TL_SUM_ROWS(TL_ANY_ROWS, 0);
}
#endif
#endif
