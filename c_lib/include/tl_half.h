/* IEEE half precision as a way of storing floats: the bits in a uint16_t, by integer operations, the same everywhere.
 * Cores with vectors of halves (TL_XF16AUXVEC) have one instruction for each conversion: the same bits but for those of
 * a NaN. */
#ifndef TL_HALF_H
#define TL_HALF_H
#include <stdint.h>

#ifndef __riscv
#undef TL_XF16AUXVEC /* flags of the SDK with another compiler: a stand-in for it */
#endif

typedef uint16_t tl_half; /* GCC 7 for RISC-V has no _Float16 */

/* To the nearest half, ties to even; from 65520 on infinity. A NaN stays one. */
static inline tl_half tl_to_half(float value)
{
#ifdef TL_XF16AUXVEC
    uint32_t half;
    __asm__(".insn r 0x53, 0, 0x22, %0, %1, x0" : "=r"(half) : "r"(value)); /* fcvt.h.s */
    return (tl_half)half;
#else
    union {
        float f;
        uint32_t u;
    } x = {value};
    const uint32_t sign = x.u >> 16 & 0x8000u, size = x.u & 0x7fffffffu;
    if (size >= 0x47800000u) /* 65536, infinity, NaN */
        return (tl_half)(sign | (size > 0x7f800000u ? 0x7e00u : 0x7c00u));
    if (size >= 0x38800000u) /* 2^-14, the least normal half; a carry out of the mantissa raises the exponent */
        return (tl_half)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
    if (size < 0x33000000u) /* 2^-25, half of the least subnormal one */
        return (tl_half)sign;
    const uint32_t mantissa = (size & 0x7fffffu) | 0x800000u, shift = 126u - (size >> 23); /* in units of 2^-24 */
    const uint32_t below = (1u << (shift - 1u)) - 1u + (mantissa >> shift & 1u);
    return (tl_half)(sign | (mantissa + below) >> shift);
#endif
}

/* One of the two halves next to a float, by a random word: as often one as the float is near to it, so that its mean is
 * the float. A half stays as it is, and so does what is no number. */
static inline float tl_nearby_half(float value, uint32_t word)
{
    union {
        float f;
        uint32_t u;
    } x = {value};
    const uint32_t sign = x.u & 0x80000000u, size = x.u & 0x7fffffffu;
    if (size >= 0x7f800000u) /* infinity, NaN */
        return value;
    if (size >= 0x38800000u) /* 2^-14, the least normal half; a carry out of the mantissa raises the exponent */
        x.u = (size + (word >> 19)) & ~0x1fffu;
    else {
        x.u = size;
        const float steps = x.f * 0x1p24f;
        const int32_t whole = (int32_t)steps;
        x.f = (float)(whole + (steps - (float)whole > (float)(word >> 8) * 0x1p-24f)) * 0x1p-24f;
    }
    x.u |= sign;
    return x.f;
}

/* Exact. */
static inline float tl_from_half(tl_half half)
{
#ifdef TL_XF16AUXVEC
    float value;
    __asm__(".insn r 0x53, 0, 0x20, %0, %1, x2" : "=r"(value) : "r"((uint32_t)half)); /* fcvt.s.h */
    return value;
#else
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, size = half & 0x7fffu;
    union {
        uint32_t u;
        float f;
    } x = {size << 13};
    if (size >= 0x7c00u)
        x.u += 0x70000000u;
    else if (size >= 0x400u)
        x.u += 0x38000000u;
    else
        x.f = (float)size * 0x1p-24f;
    x.u |= sign;
    return x.f;
#endif
}
#endif
