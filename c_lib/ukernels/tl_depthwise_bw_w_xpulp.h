/* Nine sums of a depthwise 3 x 3 weight gradient by PULP's own instructions; internal to c_lib/kernels. Rows have a
 * column of padding at either end. A hardware loop goes along a row of dL/dy: each image column is loaded once, and
 * meets the outputs that see it. */
#ifndef TL_DEPTHWISE_BW_W_XPULP_H
#define TL_DEPTHWISE_BW_W_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* Rows of dL/dy, and the three image rows that the first one meets. Of these the outer ones may be a zero that stays
 * where it is, if there is one row. */
typedef struct {
    const float *at[3], *y;
    float *sums;     /* where nine sums end, and, but at first, begin */
    int begins;      /* 1: at zero */
    int top, bottom; /* bytes from a column to the next */
    int rows;
    int middle;       /* columns that all taps of a kernel row meet; with TL_STEP_3X3 2, outputs but the first */
    int last;         /* with TL_STEP_3X3 2: whether a column is behind those */
    int down, y_down; /* bytes from the end of a row to the next one */
} tl_depthwise_rows;

/* clang-format off */
#define TL_TAPS(what)                                                                                                  \
    what("t0", "0") what("t1", "4") what("t2", "8") what("t3", "12") what("t4", "16") what("t5", "20")                 \
    what("t6", "24") what("s2", "28") what("s3", "32")
#define TL_SUM_IN(sum, at) "lw " sum ", " at "(%[sums])\n"
#define TL_SUM_NONE(sum, at) "li " sum ", 0\n"
#define TL_SUM_OUT(sum, at) "sw " sum ", " at "(%[sums])\n"
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
/* clang-format on */

static inline __attribute__((always_inline)) void tl_depthwise_meet(const tl_depthwise_rows *r)
{
    const float *p0 = r->at[0], *p1 = r->at[1], *p2 = r->at[2], *y = r->y;
    int rows = r->rows;
    __asm__ volatile(
        ".balign 4\n.option push\n.option norvc\nbeqz %[begins], 5f\n" TL_TAPS(TL_SUM_NONE) "j 1f\n5:\n" TL_TAPS(
            TL_SUM_IN) "1:\n" TL_ALONG
                       "add %[p0], %[p0], %[down]\nadd %[p1], %[p1], %[down]\nadd %[p2], %[p2], %[down]\n"
                       "add %[y], %[y], %[y_down]\naddi %[rows], %[rows], -1\nbnez %[rows], 1b\n" TL_TAPS(
                           TL_SUM_OUT) ".option pop\n"
        : [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [y] "+r"(y), [rows] "+r"(rows)
        : [begins] "r"(r->begins), [by0] "r"(r->top), [by2] "r"(r->bottom), [middle] "r"(r->middle),
          [last] "r"(r->last), [down] "r"(r->down), [y_down] "r"(r->y_down), [sums] "r"(r->sums)
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9");
}
#endif
#endif
