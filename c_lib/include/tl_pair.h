/* Two halves in a word, the first one in its lower bits, and what PULP's vfdotpex.s.h makes of two such words: both
 * products, which are exact in fp32, are added with one rounding, and that sum is added with another. Everywhere the same
 * bits; TL_XF16AUXVEC: by the instruction itself. */
#ifndef TL_PAIR_H
#define TL_PAIR_H
#include "tl_half.h"

typedef uint32_t __attribute__((may_alias)) tl_pair;

static inline tl_pair tl_pair_of(tl_half first, tl_half second)
{
#ifdef TL_XF16AUXVEC
    tl_pair both;
    __asm__(".insn r 0x57, 0, 0x68, %0, %1, %2" : "=r"(both) : "r"(second), "r"(first)); /* pv.pack.h */
    return both;
#else
    return (tl_pair)first | (tl_pair)second << 16;
#endif
}

static inline float tl_pair_add(float sum, tl_pair a, tl_pair b)
{
#ifdef TL_XF16AUXVEC
    __asm__(".insn r 0x33, 0, 0x4b, %0, %1, %2" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
#else
    const float first = tl_from_half((tl_half)a) * tl_from_half((tl_half)b);
    return sum + __builtin_fmaf(tl_from_half((tl_half)(a >> 16)), tl_from_half((tl_half)(b >> 16)), first);
#endif
}
#endif
