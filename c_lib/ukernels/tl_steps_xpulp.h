/* A step of 4 x 4 sums of packed panels, pairs or single terms: 16 times the instruction TL_STEP and 8 loads that
 * advance, of which one stands behind every second sum: so two cores that share a float unit take turns however far one
 * of them is ahead. Internal to c_lib/kernels. */
#ifndef TL_STEPS_XPULP_H
#define TL_STEPS_XPULP_H
#include "tl_xpulp.h"

#define TL_TWO_STEPS(s0, a0, s1, a1, b, load) TL_STEP(s0, a0, b) TL_STEP(s1, a1, b) load
/* Two rows, column by column, then the other two; on the way the operands that are not there yet, and the first ones of
 * the next step. a: s1, a5, a6, a7; b: a4, s11, ra, and the register that had the count. */
#define TL_TERM(a0, a1, b0, b1, b2)                                                                                    \
    TL_TWO_STEPS("t0", "s1", "t4", "a5", "a4", TL_LOAD("%2", "%1"))                                                    \
    TL_TWO_STEPS("t1", "s1", "t5", "a5", "s11", TL_LOAD("a6", "%0"))                                                   \
    TL_TWO_STEPS("t2", "s1", "t6", "a5", "ra", TL_LOAD("a7", "%0"))                                                    \
    TL_TWO_STEPS("t3", "s1", "s2", "a5", "%2", a0)                                                                     \
    TL_TWO_STEPS("s3", "a6", "s7", "a7", "a4", a1)                                                                     \
    TL_TWO_STEPS("s4", "a6", "s8", "a7", "s11", b0)                                                                    \
    TL_TWO_STEPS("s5", "a6", "s9", "a7", "ra", b1) TL_TWO_STEPS("s6", "a6", "s10", "a7", "%2", b2)
#define TL_FIRST_OPERANDS                                                                                              \
    TL_LOAD("s1", "%0"), TL_LOAD("a5", "%0"), TL_LOAD("a4", "%1"), TL_LOAD("s11", "%1"), TL_LOAD("ra", "%1")
#endif
