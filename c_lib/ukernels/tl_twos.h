/* Tiles of 4 channels x 4 pixels that are read as two pairs, every other column of a plane with zeros around it;
 * internal to c_lib/kernels. Weights are packed, and each term says where the next one's inputs are: so taps may lie
 * anywhere, and nothing is packed of the inputs. */
#ifndef TL_TWOS_H
#define TL_TWOS_H
#include "tl_tile_xpulp.h"

enum { TL_PAIR_BYTES = 8 }; /* from a pixel's input to that of the next one, and behind it */

/* Of four channels. */
typedef struct {
    int step; /* bytes from the second input of a pair to the first one of the next term */
    float w[4];
} tl_twos_term;

enum { TL_TWOS_WORDS = sizeof(tl_twos_term) / sizeof(float) };

#ifdef TL_XPULP_TILES
/* clang-format off */
/* Weights: s1, a5, a6, a7; inputs: a4, s11 of the first pair, ra, s0 of the second one. */
#define TL_TERM_OF_TWOS_X(step, a0, a1, p0, p1, q0)                                                                    \
    TL_MAC("t0", "s1", "a4") TL_MAC("t4", "a5", "a4") TL_LOAD_STEP("s0", "%[q]", "%[step]")                            \
    TL_MAC("t1", "s1", "s11") TL_MAC("t5", "a5", "s11") TL_LOAD("a6", "%[a]")                                          \
    TL_MAC("t2", "s1", "ra") TL_MAC("t6", "a5", "ra") TL_LOAD("a7", "%[a]")                                            \
    TL_MAC("t3", "s1", "s0") TL_MAC("s2", "a5", "s0") step a0                                                          \
    TL_MAC("s3", "a6", "a4") TL_MAC("s7", "a7", "a4") a1                                                               \
    TL_MAC("s4", "a6", "s11") TL_MAC("s8", "a7", "s11") p0                                                             \
    TL_MAC("s5", "a6", "ra") TL_MAC("s9", "a7", "ra") p1                                                               \
    TL_MAC("s6", "a6", "s0") TL_MAC("s10", "a7", "s0") q0
#define TL_FIRST_OF_TWOS                                                                                               \
    TL_LOAD("%[step]", "%[a]"), TL_LOAD("s1", "%[a]"), TL_LOAD("a5", "%[a]"), TL_LOAD_BY("8", "a4", "%[p]"),           \
        TL_LOAD_STEP("s11", "%[p]", "%[step]"), TL_LOAD_BY("8", "ra", "%[q]")
#define TL_ALL_SIX(step, a0, a1, p0, p1, q0) step a0 a1 p0 p1 q0
#define TL_TWOS_BACK "sub %[p], %[p], a7\nsub %[q], %[q], a7\n"
/* clang-format on */

/* As tl_xpulp_panel, tiles `a_tile` terms apart; b_back, bytes from the first term's inputs to those behind the last.
 */
static inline __attribute__((always_inline)) void tl_xpulp_twos(tl_tile_way *w, const tl_twos_term *a, int a_tile,
                                                                const float *p, const float *q, int b_back, int count)
{
    const int a_next = (int)sizeof(tl_twos_term) * (a_tile - w->terms);
    int step;
    __asm__ volatile(TL_TILES("50", TL_TWOS_BACK, TL_EACH(TL_ALL_SIX, TL_FIRST_OF_TWOS),
                              TL_EACH(TL_TERM_OF_TWOS_X, TL_FIRST_OF_TWOS), TL_TERM_OF_TWOS_X("", "", "", "", "", ""))
                     : [a] "+&r"(a), [p] "+&r"(p), [q] "+&r"(q), [step] "=&r"(step), TL_TILES_MOVE
                     : TL_TILE_WAY
                     : "s0", TL_USED);
}
#else
/* One tile. */
static inline void tl_twos_tile(const tl_twos_term *a, const float *p, const float *q, int terms, float *tile)
{
    float c[4][4];
    TL_UNROLLED
    for (int i = 0; i < 4; ++i)
        c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0.0f;
    for (; terms > 0; --terms, ++a) {
        const int more = (TL_PAIR_BYTES + a->step) / (int)sizeof(float);
        const float x[4] = {p[0], p[2], q[0], q[2]};
        TL_UNROLLED
        for (int i = 0; i < 4; ++i) {
            TL_UNROLLED
            for (int j = 0; j < 4; ++j)
                c[i][j] = __builtin_fmaf(a->w[i], x[j], c[i][j]);
        }
        p += more, q += more;
    }
    TL_UNROLLED
    for (int i = 0; i < 16; ++i)
        tile[i] = c[i >> 2][i & 3];
}
#endif
#endif
