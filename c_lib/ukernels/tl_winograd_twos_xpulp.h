/* Chains of eight elements by PULP's own instructions, one after the other: a chain's last term loads the first
 * operands of the next one, and its first term begins with x0. Internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_TWOS_XPULP_H
#define TL_WINOGRAD_TWOS_XPULP_H
#include "tl_winograd_twos.h" /* first: it sets how the whole file is compiled */
#include "tl_terms.h"
#include "tl_tile_xpulp.h"
#include "tl_winograd_chains.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
#define TL_BEGIN(to, a, b) "fmadd.s " to ", " a ", " b ", x0\n"
/* Before the third of b is loaded its register counts the terms. `on` goes to the next chain. */
#define TL_TERM_OF_EIGHT(step, on)                                                                                     \
    step("t0", "s1", "a4") step("t4", "a5", "a4") TL_LOAD("ra", "%[b]")                                                \
    step("t1", "s1", "s11") step("t5", "a5", "s11") TL_LOAD_BY("116", "s0", "%[b]")                                    \
    step("t2", "s1", "ra") step("t6", "a5", "ra") TL_LOAD("a6", "%[a]")                                                \
    step("t3", "s1", "s0") step("s2", "a5", "s0") TL_LOAD_BY("116", "a7", "%[a]") on                                   \
    step("s3", "a6", "a4") step("s7", "a7", "a4") TL_LOAD("s1", "%[a]")                                                \
    step("s4", "a6", "s11") step("s8", "a7", "s11") TL_LOAD("a5", "%[a]")                                              \
    step("s5", "a6", "ra") step("s9", "a7", "ra") TL_LOAD("a4", "%[b]")                                                \
    step("s6", "a6", "s0") step("s10", "a7", "s0") TL_LOAD("s11", "%[b]")
#define TL_STORE_ROW(s0, s1, s2, s3)                                                                                   \
    TL_STORE_ON(s0, "%[m]") TL_STORE_ON(s1, "%[m]") TL_STORE_ON(s2, "%[m]") TL_STORE_ON(s3, "%[m]")

/* Where m has advanced to. What is loaded behind the last chain is not used. */
static inline __attribute__((always_inline)) float *tl_xpulp_eight(const float *u, const float *v, float *m, int terms)
{
    const int left = terms - 2, next = 16 - 4 * TL_EIGHT * terms;
    __asm__ volatile(
        ".balign 4\n.option push\n.option norvc\n"
        TL_LOAD("s1", "%[a]") TL_LOAD("a5", "%[a]") TL_LOAD("a4", "%[b]") TL_LOAD("s11", "%[b]")
        "li ra, 8\n" TL_OUTER_LOOP("ra", "184")
        TL_TERM_OF_EIGHT(TL_BEGIN, "")
        "lw ra, %[left]\n" TL_LOOP("ra", "48")
        TL_TERM_OF_EIGHT(TL_MAC, "")
        TL_TERM_OF_EIGHT(TL_MAC, "add %[a], %[a], %[next]\nadd %[b], %[b], %[next]\n")
        TL_ROWS(TL_STORE_ROW)
        ".option pop\n"
        : [a] "+&r"(u), [b] "+&r"(v), [m] "+&r"(m)
        : [next] "r"(next), [left] "m"(left)
        : "s0", TL_USED);
    return m;
}
/* clang-format on */
#endif
#endif
