/* Winograd's chains by PULP's own instructions, one tile after the other: what is around a tile stays in registers or
 * at hand, which is half of what tl_tile_xpulp.h takes for any tile; internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_XPULP_H
#define TL_WINOGRAD_XPULP_H
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
#define TL_FROM_PLACE                                                                                                  \
    "lw t0, 0(a4)\nlw t1, 4(a4)\nlw t2, 8(a4)\nlw t3, 12(a4)\nlw t4, 16(a4)\nlw t5, 20(a4)\nlw t6, 24(a4)\n"           \
    "lw s2, 28(a4)\nlw s3, 32(a4)\nlw s4, 36(a4)\nlw s5, 40(a4)\nlw s6, 44(a4)\nlw s7, 48(a4)\nlw s8, 52(a4)\n"        \
    "lw s9, 56(a4)\nlw s10, 60(a4)\n"
#define TL_TO_PLACE                                                                                                    \
    "sw t0, 0(a4)\nsw t1, 4(a4)\nsw t2, 8(a4)\nsw t3, 12(a4)\nsw t4, 16(a4)\nsw t5, 20(a4)\nsw t6, 24(a4)\n"           \
    "sw s2, 28(a4)\nsw s3, 32(a4)\nsw s4, 36(a4)\nsw s5, 40(a4)\nsw s6, 44(a4)\nsw s7, 48(a4)\nsw s8, 52(a4)\n"        \
    "sw s9, 56(a4)\nsw s10, 60(a4)\n"

#define TL_CHAINS(begin)                                                                                               \
    "1:\n" begin "lw a7, %[left]\n.balign 4\n.option push\n.option norvc\n"                                            \
    TL_EACH(TL_ALL_FIVE, TL_FIRST_A, TL_FIRST_B) "beqz a7, 3f\n" TL_LOOP("a7", "48")                                   \
    TL_EACH(TL_TERM_OF_PANEL_X, TL_FIRST_A, TL_FIRST_B) "3:\n" TL_TERM_OF_PANEL_X("", "", "", "", "") ".option pop\n"  \
    "lw a4, %[m]\n" TL_TO_PLACE "addi a4, a4, 64\nsw a4, %[m]\nlw a4, %[u_next]\nadd %[a], %[a], a4\n"                 \
    "lw a4, %[v_next]\nadd %[b], %[b], a4\nlw a4, %[count]\naddi a4, a4, -1\nsw a4, %[count]\nbnez a4, 1b\n"
/* clang-format on */

/* As tl_winograd_chains, for one tile at least. */
static inline __attribute__((always_inline)) void tl_xpulp_chains(const float *u, int u_step, const float *v, float *m,
                                                                  int count, int terms, int resumed)
{
    const int step = 52, left = terms - 1, u_next = 4 * u_step - 64 * terms, v_next = -64 * terms;
    if (resumed)
        __asm__ volatile(
            TL_CHAINS("lw a4, %[m]\n" TL_FROM_PLACE)
            : [a] "+&r"(u), [b] "+&r"(v), [m] "+m"(m), [count] "+m"(count)
            : [a_k] "r"(step), [b_k] "r"(step), [left] "m"(left), [u_next] "m"(u_next), [v_next] "m"(v_next)
            : "s0", TL_USED);
    else
        __asm__ volatile(
            TL_CHAINS(TL_ROWS(TL_ZEROS))
            : [a] "+&r"(u), [b] "+&r"(v), [m] "+m"(m), [count] "+m"(count)
            : [a_k] "r"(step), [b_k] "r"(step), [left] "m"(left), [u_next] "m"(u_next), [v_next] "m"(v_next)
            : "s0", TL_USED);
}
#endif
#endif
