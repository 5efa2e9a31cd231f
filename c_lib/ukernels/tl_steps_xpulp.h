/* A step of 4 x 4 sums of packed panels, pairs or single terms: 16 times the instruction TL_STEP and 8 loads that
 * advance, of which one stands behind every second sum: so two cores that share a float unit take turns however far one
 * of them is ahead. Internal to c_lib/kernels. */
#ifndef TL_STEPS_XPULP_H
#define TL_STEPS_XPULP_H
#include "tl_xpulp.h"

/* clang-format off */
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
/* The same by any instruction, of panels whose steps lie apart: the last load of each goes on by %[a_k] or %[b_k].
 * a: s1, a5, a6, a7; b: a4, s11, ra, s0. */
#define TL_TERM_OF_PANELS(step, a0, a1, b0, b1, b2)                                                                    \
    step("t0", "s1", "a4") step("t4", "a5", "a4") TL_LOAD_STEP("s0", "%[b]", "%[b_k]")                                 \
    step("t1", "s1", "s11") step("t5", "a5", "s11") TL_LOAD("a6", "%[a]")                                              \
    step("t2", "s1", "ra") step("t6", "a5", "ra") TL_LOAD_STEP("a7", "%[a]", "%[a_k]")                                 \
    step("t3", "s1", "s0") step("s2", "a5", "s0") a0                                                                   \
    step("s3", "a6", "a4") step("s7", "a7", "a4") a1                                                                   \
    step("s4", "a6", "s11") step("s8", "a7", "s11") b0                                                                 \
    step("s5", "a6", "ra") step("s9", "a7", "ra") b1                                                                   \
    step("s6", "a6", "s0") step("s10", "a7", "s0") b2
#define TL_FIRST_A TL_LOAD("s1", "%[a]"), TL_LOAD("a5", "%[a]")
#define TL_FIRST_B TL_LOAD("a4", "%[b]"), TL_LOAD("s11", "%[b]"), TL_LOAD("ra", "%[b]")
/* clang-format on */
#endif
