/* Tiles of 4 output channels x 4 neighbouring pixels of a dense plane, side by side; internal to c_lib/kernels. */
#ifndef TL_PLANE_FOURS_H
#define TL_PLANE_FOURS_H
#include "tl_plane_side.h" /* first: it sets how the whole file is compiled */
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
/* clang-format off */
#define TL_FOURS_ROWS(what) TL_EACH(what, TL_ROW0) TL_EACH(what, TL_ROW1) TL_EACH(what, TL_ROW2)
/* clang-format on */

/* A hardware loop of terms in one of tiles, all of which a core's own instructions have room for; what is added to
 * something stands behind. The first term is onto zero, so there are two or more. */
static inline __attribute__((always_inline)) void tl_plane_fours(const tl_plane_side *t, int turned)
{
    const float *a = t->w, *b = t->in, *base = t->base;
    float *to = t->out;
    const int count = t->count, adds = t->base_row, more = t->terms - 2, advance = 4 * t->in_c - 12;
    const int a_back = 4 * t->terms * t->w_term, b_back = 4 * (t->terms * t->in_c - 4);
    const int bytes = 4 * t->out_c, base_step = 4 * t->base_step;
    const int base_rest = 4 * t->base_row - 3 * base_step, base_next = 4 * base_step - 16 * t->base_row;
    (void)turned;
    if (t->terms == 1) {
        tl_plane_any(t, 4);
        return;
    }
    /* clang-format off */
    __asm__ volatile(
        ".balign 4\n.option push\n.option norvc\nlw s0, %[count]\n" TL_OUTER_LOOP("s0", "236")
        "lw ra, %[advance]\n" TL_EACH(TL_ALL_THREE, TL_FIRST_OF_ROWS)
        TL_BEGIN_OF_ROWS_X(TL_LOAD_STEP("a4", "%[a]", "%[a_m]"), TL_LOAD("s1", "%[b]") "lw s0, %[more]\n",
            TL_LOAD("a5", "%[b]"))
        "beqz s0, 3f\n" TL_LOOP("s0", "48") TL_EACH(TL_TERM_OF_ROWS_X, TL_FIRST_OF_ROWS)
        "3:\n" TL_TERM_OF_ROWS_X("lw a4, %[to]\n", "", "lw a5, %[adds]\nlw ra, %[bytes]\n")
        "lw a7, %[a_back]\nlw s0, %[b_back]\naddi a6, a4, 16\nsub %[a], %[a], a7\nsub %[b], %[b], s0\nsw a6, %[to]\n"
        "bnez a5, 5f\n" TL_FOURS_ROWS(TL_SAVE_FROM_ZERO) TL_EACH(TL_SAVED_FROM_ZERO, TL_ROW3)
        "6:\n" TL_STORE_STEP("s7", "a4", "ra") ".option pop\nj 9f\n"
        "5:\nlw a5, %[base]\nlw s0, %[base_rest]\nlw a7, %[base_step]\n" TL_ROWS(TL_ONTO)
        "lw a6, %[base_next]\nadd a5, a5, a6\nsw a5, %[base]\n" TL_FOURS_ROWS(TL_SAVE)
        "sw s8, 4(a4)\nsw s9, 8(a4)\nsw s10, 12(a4)\nj 6b\n9:\n"
        : [a] "+&r"(a), [b] "+&r"(b), [base] "+m"(base), [to] "+m"(to)
        : [a_m] "r"(4 * t->w_row), [back] "r"(4 * (t->w_term - 3 * t->w_row)), [advance] "m"(advance), [adds] "m"(adds),
          [count] "m"(count), [more] "m"(more), [a_back] "m"(a_back), [b_back] "m"(b_back), [bytes] "m"(bytes),
          [base_step] "m"(base_step), [base_rest] "m"(base_rest), [base_next] "m"(base_next)
        : "s0", TL_USED);
    /* clang-format on */
}
#else
/* turned, a literal: weights of four channels lie side by side, not those of terms. */
static inline void tl_plane_fours(const tl_plane_side *t, int turned)
{
    float tile[16];
    const int s = t->base_step;
    tl_panel_out out = {.c = t->out, .c_m = t->out_c, .cols = 4, .c_n = {0, 1, 2, 3}, .dense = 1, .row_end = 4};
    out.first = 1, out.tile = tile, out.init = t->base_row ? t->base : NULL, out.i_m = t->base_row;
    for (int j = 0; j < 4; ++j)
        out.i_n[j] = j * s;
    const float *in = t->in;
    for (int left = t->count; left > 0; --left, in += 4, out.c += 4, out.init += out.init ? 4 * s : 0)
        if (turned)
            tl_tile_panel(&out, t->w, 0, t->w_term, in, t->in_c, t->terms);
        else
            tl_tile_rows(&out, t->w, t->w_row, in, t->in_c, t->terms);
}
#endif
#endif
