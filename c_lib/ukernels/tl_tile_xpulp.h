/* Whole 4 x 4 tiles by PULP's own instructions: a hardware loop of 8 loads that advance and 16 multiply-adds; internal
 * to c_lib/kernels. A load stands behind every second multiply-add: however far one of two cores that share a float
 * unit is ahead, a term takes 33 cycles. That needs all registers that there are, so what comes after waits in
 * memory. */
#ifndef TL_TILE_XPULP_H
#define TL_TILE_XPULP_H
#include "tl_tile.h"
#include "tl_steps_xpulp.h"

/* Not where a register points at the frame. */
#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
#define TL_XPULP_TILES
#endif

/* What becomes of a tile: it overwrites rows, is added to others on the way there, or is stored as it is. */
enum { TL_SET, TL_ADD, TL_STORE, TL_PAUSE };

#ifdef TL_XPULP_TILES
/* What the sums of a tile of so many terms begin with, and where they go. Several tiles, one below the other, overwrite
 * rows or are added to some. */
typedef struct {
    const float *from; /* NULL: zeros */
    float *to;
    int bytes;         /* from one of its rows to the next */
    const float *base; /* TL_ADD: what they are added to */
    int base_step;     /* ... from one of its columns to the next, in bytes: 4, or 0 where a row has one number */
    int base_rest;     /* ... and from the last one to the next row */
    int end;           /* TL_SET, TL_ADD, TL_STORE */
    int terms;
} tl_tile_way;

/* Tiles are added to rows so many bytes apart. */
static inline void tl_onto(tl_tile_way *w, const float *base, int bytes, int step)
{
    w->base = base, w->base_step = step, w->base_rest = bytes - 3 * step;
}

/* What becomes of tiles from a row on. */
static inline tl_tile_way tl_way_of(const tl_panel_out *out, int row, int end, int terms)
{
    tl_tile_way way = {
        .from = out->resume ? out->tile : NULL, .to = out->tile, .bytes = 16, .end = end, .terms = terms};
    if (end <= TL_ADD)
        tl_onto(&way, way.to = out->c + row * out->c_m + out->c_n[0], way.bytes = 4 * out->c_m, 4);
    if (end == TL_ADD && out->first)
        tl_onto(&way, out->init + row * out->i_m + out->i_n[0], 4 * out->i_m, 4 * (out->i_n[1] - out->i_n[0]));
    return way;
}

/* clang-format off */
/* All but the last store. */
#define TL_SAVED_FROM_ZERO(s0, s1, s2, s3)                                                                             \
    "fadd.s " s1 ", " s1 ", x0\nfadd.s " s2 ", " s2 ", x0\nsw " s1 ", 4(a4)\nfadd.s " s3 ", " s3 ", x0\n"              \
    "sw " s2 ", 8(a4)\nfadd.s " s0 ", " s0 ", x0\nsw " s3 ", 12(a4)\n"
#define TL_SAVE_FROM_ZERO(s0, s1, s2, s3) TL_SAVED_FROM_ZERO(s0, s1, s2, s3) TL_STORE_STEP(s0, "a4", "ra")
#define TL_ONTO(s0, s1, s2, s3)                                                                                        \
    TL_LOAD_STEP("s1", "a5", "a7") TL_LOAD_STEP("s11", "a5", "a7") TL_LOAD_STEP("a6", "a5", "a7")                      \
    "fadd.s " s0 ", s1, " s0 "\n" TL_LOAD_STEP("s1", "a5", "s0")                                                       \
    "fadd.s " s1 ", s11, " s1 "\nfadd.s " s2 ", a6, " s2 "\nfadd.s " s3 ", s1, " s3 "\n"

/* `first`: the operands that a term finds loaded; `term`, so many halfwords, loads them for the next one, `last` does
 * not. `back`: b returns, by a7. */
#define TL_TILES(length, back, first, term, last)                                                                      \
    "0:\nlw a4, %[from]\nli ra, 16\nbeqz a4, 1f\n" TL_ROWS(TL_START) "j 2f\n1:\n" TL_ROWS(TL_ZEROS)                    \
    "2:\nlw a7, %[terms]\nblez a7, 4f\naddi a7, a7, -1\n.balign 4\n.option push\n.option norvc\n"                      \
    first "beqz a7, 3f\n" TL_LOOP("a7", length) term "3:\n" last ".option pop\n4:\n"                                   \
    TL_GOES_TO TL_GOES_BY TL_ENDS TL_TILES_SET(back) TL_TILES_ADD "9:\n"
/* The same. Where sums begin with zeros and there are two terms or more, `begin`, as `term`, is the first of them.
 * `last` loads where a tile goes, too. */
#define TL_TILES_BEGUN(length, back, first, begin, term, last)                                                         \
    "0:\nlw a7, %[terms]\nlw a4, %[from]\naddi a7, a7, -1\nbnez a4, 8f\nblez a7, 7f\n"                                 \
    ".balign 4\n.option push\n.option norvc\n" first begin "lw a7, %[terms]\naddi a7, a7, -2\n"                        \
    "1:\nbeqz a7, 3f\n" TL_LOOP("a7", length) term "3:\n" last ".option pop\n4:\n" TL_TILES_SET(back) TL_TILES_ADD     \
    "7:\n" TL_ROWS(TL_ZEROS) "j 2f\n8:\nli ra, 16\n" TL_ROWS(TL_START)                                                 \
    "2:\nbgez a7, 2f\n" TL_GOES_TO TL_GOES_BY TL_ENDS "j 4b\n2:\n" first "j 1b\n9:\n"
#define TL_GOES_TO "lw a4, %[to]\n"
#define TL_GOES_BY "lw ra, %[bytes]\n"
#define TL_ENDS "lw a5, %[end]\n"
/* What is seldom stands behind what is not, which a core's own instructions have room for. */
#define TL_TILES_SET(back)                                                                                             \
    "bnez a5, 5f\n" TL_ROWS(TL_SAVE_FROM_ZERO)                                                                         \
    "6:\nlw a5, %[count]\nlw a6, %[a_next]\nlw a7, %[b_back]\nsw a4, %[to]\naddi a5, a5, -1\nsw a5, %[count]\n"        \
    "add %[a], %[a], a6\n" back "bnez a5, 0b\nj 9f\n"
#define TL_TILES_ADD                                                                                                   \
    "5:\naddi a5, a5, -1\nbnez a5, 5f\nlw a5, %[base]\nlw s0, %[base_rest]\nlw a7, %[base_step]\n" TL_ROWS(TL_ONTO)    \
    "sw a5, %[base]\n5:\n" TL_ROWS(TL_SAVE) "j 6b\n"
#define TL_B_BACK "sub %[b], %[b], a7\n"
#define TL_TILES_MOVE [to] "+m"(w->to), [base] "+m"(w->base), [count] "+m"(count)
#define TL_TILE_MOVES [a] "+&r"(a), [b] "+&r"(b), TL_TILES_MOVE
#define TL_TILE_WAY                                                                                                    \
    [from] "m"(w->from), [bytes] "m"(w->bytes), [base_step] "m"(w->base_step), [base_rest] "m"(w->base_rest),          \
        [end] "m"(w->end), [terms] "m"(w->terms), [a_next] "m"(a_next), [b_back] "m"(b_back)

#define TL_TERM_OF_PANEL_X(...) TL_TERM_OF_PANELS(TL_MAC, __VA_ARGS__)
#define TL_BEGIN_OF_PANEL_X(...) TL_TERM_OF_PANELS(TL_MAC_ONTO_0, __VA_ARGS__)

/* Row by row, so that a has three registers and its pointer walks down the four rows: a4, s11, s0, s11; b: s1, a5, a6,
 * a7 */
#define TL_TERM_OF_ROWS_X(...) TL_TERM_OF_ROWS_BY(TL_MAC, TL_LOAD_STEP("a7", "%[b]", "ra"), __VA_ARGS__)
#define TL_BEGIN_OF_ROWS_X(...) TL_TERM_OF_ROWS_BY(TL_MAC_ONTO_0, TL_LOAD_STEP("a7", "%[b]", "ra"), __VA_ARGS__)
#define TL_TERM_OF_ROWS_BY(step, last_b, a0, b0, b1)                                                                   \
    step("t0", "a4", "s1") TL_LOAD("a6", "%[b]") step("t1", "a4", "a5") last_b                                         \
    step("t2", "a4", "a6") TL_LOAD_STEP("s11", "%[a]", "%[a_m]") step("t3", "a4", "a7")                                \
    step("t4", "s11", "s1") TL_LOAD_STEP("s0", "%[a]", "%[a_m]") step("t5", "s11", "a5")                               \
    step("t6", "s11", "a6") step("s2", "s11", "a7") TL_LOAD_STEP("s11", "%[a]", "%[back]")                             \
    step("s3", "s0", "s1") step("s4", "s0", "a5") step("s5", "s0", "a6") a0 step("s6", "s0", "a7")                     \
    step("s7", "s11", "s1") b0 step("s8", "s11", "a5") step("s9", "s11", "a6") step("s10", "s11", "a7") b1
#define TL_FIRST_OF_ROWS TL_LOAD_STEP("a4", "%[a]", "%[a_m]"), TL_LOAD("s1", "%[b]"), TL_LOAD("a5", "%[b]")
#define TL_ALL_THREE(a0, b0, b1) a0 b0 b1
/* Three terms whose b are four neighbours, one further on each time. */
#define TL_TERMS_OF_NEAR                                                                                               \
    TL_EACH(TL_TERM_OF_ROWS_BY, TL_MAC, TL_LOAD_BY("-8", "a7", "%[b]"), TL_FIRST_OF_ROWS)                              \
    TL_EACH(TL_TERM_OF_ROWS_BY, TL_MAC, TL_LOAD_BY("-8", "a7", "%[b]"), TL_FIRST_OF_ROWS)                              \
    TL_EACH(TL_TERM_OF_ROWS_X, TL_FIRST_OF_ROWS)

/* The same with b as rows, too, as far apart as those of a. */
#define TL_TERM_OF_BOTH_X(...) TL_TERM_OF_BOTH(TL_MAC, __VA_ARGS__)
#define TL_BEGIN_OF_BOTH_X(...) TL_TERM_OF_BOTH(TL_MAC_ONTO_0, __VA_ARGS__)
#define TL_TERM_OF_BOTH(step, a0, b0, b1)                                                                              \
    step("t0", "a4", "s1") TL_LOAD_STEP("a6", "%[b]", "%[m]") step("t1", "a4", "a5")                                   \
    TL_LOAD_STEP("a7", "%[b]", "%[back]") step("t2", "a4", "a6") TL_LOAD_STEP("s11", "%[a]", "%[m]")                   \
    step("t3", "a4", "a7") step("t4", "s11", "s1") TL_LOAD_STEP("s0", "%[a]", "%[m]") step("t5", "s11", "a5")          \
    step("t6", "s11", "a6") step("s2", "s11", "a7") TL_LOAD_STEP("s11", "%[a]", "%[back]")                             \
    step("s3", "s0", "s1") step("s4", "s0", "a5") step("s5", "s0", "a6") a0 step("s6", "s0", "a7")                     \
    step("s7", "s11", "s1") b0 step("s8", "s11", "a5") step("s9", "s11", "a6") step("s10", "s11", "a7") b1
#define TL_FIRST_OF_BOTH                                                                                               \
    TL_LOAD_STEP("a4", "%[a]", "%[m]"), TL_LOAD_STEP("s1", "%[b]", "%[m]"), TL_LOAD_STEP("a5", "%[b]", "%[m]")
/* clang-format on */

/* As tl_tile_panel, so many tiles. */
static inline __attribute__((always_inline)) void tl_xpulp_panel(tl_tile_way *w, const float *a, int a_tile, int a_k,
                                                                 const float *b, int b_k, int count)
{
    const int a_next = 4 * (a_tile - w->terms * a_k), b_back = 4 * w->terms * b_k;
    __asm__ volatile(TL_TILES_BEGUN("48", TL_B_BACK, TL_EACH(TL_ALL_FIVE, TL_FIRST_A, TL_FIRST_B),
                                    TL_EACH(TL_BEGIN_OF_PANEL_X, TL_FIRST_A, TL_FIRST_B),
                                    TL_EACH(TL_TERM_OF_PANEL_X, TL_FIRST_A, TL_FIRST_B),
                                    TL_TERM_OF_PANEL_X(TL_ENDS, TL_GOES_TO, "", TL_GOES_BY, ""))
                     : TL_TILE_MOVES
                     : [a_k] "r"(4 * a_k - 12), [b_k] "r"(4 * b_k - 12), TL_TILE_WAY
                     : "s0", TL_USED);
}

/* As tl_tile_rows. */
static inline __attribute__((always_inline)) void tl_xpulp_rows(tl_tile_way *w, const float *a, int a_m, const float *b,
                                                                int b_k, int count)
{
    const int advance = 4 * b_k - 12, a_next = 16 * a_m - 4 * w->terms, b_back = 4 * w->terms * b_k;
    __asm__ volatile(TL_TILES_BEGUN("48", TL_B_BACK, "lw ra, %[advance]\n" TL_EACH(TL_ALL_THREE, TL_FIRST_OF_ROWS),
                                    TL_EACH(TL_BEGIN_OF_ROWS_X, TL_FIRST_OF_ROWS),
                                    TL_EACH(TL_TERM_OF_ROWS_X, TL_FIRST_OF_ROWS),
                                    TL_TERM_OF_ROWS_X(TL_GOES_TO, TL_GOES_BY, TL_ENDS))
                     : TL_TILE_MOVES
                     : [a_m] "r"(4 * a_m), [back] "r"(4 - 12 * a_m), [advance] "m"(advance), TL_TILE_WAY
                     : "s0", TL_USED);
}

/* B: of `lines` rows six neighbours, of which four meet a term, the next four another one, and the last four a third.
 * What is loaded for a term behind the last is beside what A and B have: of A in the tile's second row, of B two
 * elements of one row more. */
static inline __attribute__((always_inline)) void tl_xpulp_near(tl_tile_way *w, const float *a, int a_m, const float *b,
                                                                int pitch, int lines, int count)
{
    const int advance = 4 * pitch - 20, a_next = 12 * a_m - 12 * lines, b_back = 4 * lines * pitch + 8;
    w->terms = lines + 1;
    __asm__ volatile(
        TL_TILES("144", TL_B_BACK, "lw ra, %[advance]\n" TL_EACH(TL_ALL_THREE, TL_FIRST_OF_ROWS), TL_TERMS_OF_NEAR, "")
        : TL_TILE_MOVES
        : [a_m] "r"(4 * a_m), [back] "r"(4 - 12 * a_m), [advance] "m"(advance), TL_TILE_WAY
        : "s0", TL_USED);
}

/* B: four rows that are as far apart as those of A. */
static inline __attribute__((always_inline)) void tl_xpulp_both(tl_tile_way *w, const float *a, const float *b, int m,
                                                                int count)
{
    const int a_next = 16 * m - 4 * w->terms, b_back = 4 * w->terms;
    __asm__ volatile(TL_TILES_BEGUN("48", TL_B_BACK, TL_EACH(TL_ALL_THREE, TL_FIRST_OF_BOTH),
                                    TL_EACH(TL_BEGIN_OF_BOTH_X, TL_FIRST_OF_BOTH),
                                    TL_EACH(TL_TERM_OF_BOTH_X, TL_FIRST_OF_BOTH),
                                    TL_TERM_OF_BOTH_X(TL_GOES_TO, TL_GOES_BY, TL_ENDS))
                     : TL_TILE_MOVES
                     : [m] "r"(4 * m), [back] "r"(4 - 12 * m), TL_TILE_WAY
                     : "s0", TL_USED);
}
#endif
#endif
