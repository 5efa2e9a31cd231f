/* Two halves in a word, the first one in its lower bits, and what PULP's vfdotpex.s.h makes of two such words: both
 * products, which are exact in fp32, are added with one rounding, and that sum is added with another. Everywhere the
 * same bits; TL_XF16AUXVEC: by the instruction itself. */
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

/* Of floats, rounded. */
static inline tl_pair tl_pair_rounded(float first, float second)
{
#ifdef TL_XF16AUXVEC
    tl_pair both;
    __asm__(".insn r 0x33, 2, 0x58, %0, %1, %2" : "=r"(both) : "r"(first), "r"(second)); /* vfcpka.h.s */
    return both;
#else
    return tl_pair_of(tl_to_half(first), tl_to_half(second));
#endif
}

/* Of elements that lie as halves, or as floats. */
static inline __attribute__((always_inline)) tl_pair tl_pair_at(const char *first, const char *second, int floats)
{
    return floats ? tl_pair_rounded(*(const float *)first, *(const float *)second)
                  : tl_pair_of(*(const tl_half *)first, *(const tl_half *)second);
}

/* Sums and differences of both halves, each rounded; through floats, which hold those of two halves exactly or closely
 * enough that the nearest half is the same. */
static inline tl_pair tl_pair_plus(tl_pair a, tl_pair b)
{
#ifdef TL_XF16AUXVEC
    tl_pair sums;
    __asm__(".insn r 0x33, 2, 0x41, %0, %1, %2" : "=r"(sums) : "r"(a), "r"(b)); /* vfadd.h */
    return sums;
#else
    return tl_pair_rounded(tl_from_half((tl_half)a) + tl_from_half((tl_half)b),
                           tl_from_half((tl_half)(a >> 16)) + tl_from_half((tl_half)(b >> 16)));
#endif
}

static inline tl_pair tl_pair_minus(tl_pair a, tl_pair b)
{
#ifdef TL_XF16AUXVEC
    tl_pair differences;
    __asm__(".insn r 0x33, 2, 0x42, %0, %1, %2" : "=r"(differences) : "r"(a), "r"(b)); /* vfsub.h */
    return differences;
#else
    return tl_pair_rounded(tl_from_half((tl_half)a) - tl_from_half((tl_half)b),
                           tl_from_half((tl_half)(a >> 16)) - tl_from_half((tl_half)(b >> 16)));
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
