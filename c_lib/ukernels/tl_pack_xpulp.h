/* Packs four rows or columns into pairs by hardware loops of PULP's own instructions: loads that advance, by any steps;
 * internal to c_lib/kernels. */
#ifndef TL_PACK_XPULP_H
#define TL_PACK_XPULP_H
#include "tl_tile_pairs.h"
#ifdef TL_XF16AUXVEC

/* clang-format off */
/* Two terms of line n to registers x and y. */
#define TL_TWO_OF(load, n, x, y) load(x, "%[p" n "]", "%[step]") load(y, "%[p" n "]", "%[step]")
#define TL_FOUR_LINES(load, join)                                                                                      \
    TL_TWO_OF(load, "0", "t0", "t1") TL_TWO_OF(load, "1", "t2", "t3") TL_TWO_OF(load, "2", "t4", "t5")                 \
    TL_TWO_OF(load, "3", "t6", "a7")                                                                                   \
    join("t0", "t0", "t1") join("t2", "t2", "t3") join("t4", "t4", "t5") join("t6", "t6", "a7")                        \
    TL_STORE_FOUR("t0", "t2", "t4", "t6")
#define TL_STORE_FOUR(a, b, c, d)                                                                                      \
    TL_STORE_ON(a, "%[to]") TL_STORE_ON(b, "%[to]") TL_STORE_ON(c, "%[to]") TL_STORE_ON(d, "%[to]")
#define TL_SKIP "add %[to], %[to], %[skip]\n"
#define TL_LINE(n) TL_LOAD("t" n, "%[p" n "]")
#define TL_PACK_LOOP(halfwords, body)                                                                                  \
    __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[count]", halfwords) body ".option pop\n"    \
        : [to] "+r"(to), [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3)                                    \
        : [count] "r"(count), [step] "r"(step), [skip] "r"(skip)                                                       \
        : "memory", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a7")
/* clang-format on */

/* The line behind one, or that one again where there are no more. */
#define TL_NEXT_LINE(n, before) ((before) + (lines > (n) ? apart : 0))
#define TL_LINES const char *p1 = TL_NEXT_LINE(1, p0), *p2 = TL_NEXT_LINE(2, p1), *p3 = TL_NEXT_LINE(3, p2)

/* So many lines `apart` bytes apart, and the last one for those that are missing; terms `step` bytes apart; so many
 * pairs of terms, one or more. Returns where the panel goes on. */
static inline tl_pair *tl_pack_halves(tl_pair *to, const char *p0, int apart, int lines, int step, int count)
{
    TL_LINES;
    const int skip = 0;
    TL_PACK_LOOP("32", TL_FOUR_LINES(TL_LOAD_HALF_STEP, TL_PAIR_OF));
    return to;
}

static inline tl_pair *tl_pack_floats(tl_pair *to, const char *p0, int apart, int lines, int step, int count)
{
    TL_LINES;
    const int skip = 0;
    TL_PACK_LOOP("32", TL_FOUR_LINES(TL_LOAD_STEP, TL_PACK));
    return to;
}

/* Pairs that are there already, in words: terms one behind the other. */
static inline tl_pair *tl_pack_words(tl_pair *to, const char *p0, int apart, int lines, int count)
{
    TL_LINES;
    const int step = 0, skip = 0;
    TL_PACK_LOOP("16", TL_LINE("0") TL_LINE("1") TL_LINE("2") TL_LINE("3") TL_STORE_FOUR("t0", "t1", "t2", "t3"));
    return to;
}

/* Four lines side by side, in words: by two terms of two lines, whose lower halves are a pair, and whose upper ones. */
static inline tl_pair *tl_pack_neighbours(tl_pair *to, const char *p0, int step, int count)
{
    const char *p1 = p0 + sizeof(tl_pair), *p2 = p0, *p3 = p0;
    const int skip = 0x30001; /* here: the upper half of each */
    TL_PACK_LOOP("24",
                 TL_TWO_OF(TL_LOAD_STEP, "0", "t0", "t1") TL_TWO_OF(TL_LOAD_STEP, "1", "t2", "t3")
                     TL_PAIR_OF("t4", "t0", "t1") TL_PAIR_OF("t5", "t2", "t3") TL_CHOOSE_HALVES("t0", "t1", "%[skip]")
                         TL_CHOOSE_HALVES("t2", "t3", "%[skip]") TL_STORE_FOUR("t4", "t0", "t5", "t2"));
    return to;
}
#endif
#endif
