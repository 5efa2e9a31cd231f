/* Division and square root, correctly rounded: the bits of the instructions, sooner where cores share one divider.
 *
 * There (-DTL_SHARED_DIVIDER, the rule for PULP unless -DTL_OWN_DIVIDER says that each core has one) moderate operands
 * go through multiplications, and the others take the instruction. From the bits comes a guess; A + (C - t)^2 comes
 * near 1 / t or 1 / sqrt(t) for all t = b y or x y^2 that it can have, and makes it good to 2^-14; Newton's step makes
 * that 2^-24; the exact remainder rounds it. docs/math.md says why no operand is
 * rounded otherwise. */
#ifndef TL_DIVIDE_H
#define TL_DIVIDE_H
#include "tl_float.h"

#if defined(TL_HAL_PULP) && !defined(TL_OWN_DIVIDER)
#define TL_SHARED_DIVIDER
#endif

#if defined(TL_SHARED_DIVIDER)
/* Whether 2^from <= |x| < 2^(from + count). */
static inline int tl_within_(float x, int from, int count)
{
    return (tl_bits(x) << 1) - ((uint32_t)(127 + from) << 24) < (uint32_t)count << 24;
}

/* 1 / b to 2^-24, and within half a distance of floats for b just below a power of two. */
static inline float tl_inverse_(float b)
{
    float y = tl_from_bits(0x7ef34000u - tl_bits(b)), u = tl_fmaf(-b, y, tl_lit(1.50096834f));
    y *= tl_fmaf(u, u, tl_lit(0.749064326f));
    return tl_fmaf(y, tl_fmaf(-b, y, tl_lit(1.0f)), y);
}

static inline float tl_divf(float a, float b)
{
    if (!tl_within_(b, -37, 60))
        return a / b;
    float y = tl_inverse_(b), q = a * y;
    if (tl_within_(a, -102, 191))
        return tl_fmaf(tl_fmaf(-b, q, a), y, q);
    return a == 0.0f ? q : a / b;
}

static inline float tl_sqrtf(float x)
{
    if (tl_bits(x) - 0x10000000u >= 0x6f800000u) /* outside of 2^-95 <= x < infinity */
        return x == 0.0f ? x : __builtin_sqrtf(x);
    float y = tl_from_bits(0x5f111000u - (tl_bits(x) >> 1)), s = x * y, u = tl_fmaf(-s, y, tl_lit(1.12665641f));
    float w = tl_fmaf(u, u, tl_lit(1.01316929f)), half = tl_from_bits(tl_bits(y) - 0x800000u) * w;
    s *= w;
    float e = tl_fmaf(-s, half, tl_lit(0.5f));
    s = tl_fmaf(s, e, s);
    return tl_fmaf(tl_fmaf(-s, s, x), tl_fmaf(half, e, half), s);
}
#else
static inline float tl_divf(float a, float b)
{
    return a / b;
}

static inline float tl_sqrtf(float x)
{
    return __builtin_sqrtf(x);
}
#endif

/* 1 / sqrt(x) to 2^-13, and the root in s: a guess and a step, with constants that one instruction loads. */
static inline float tl_inverse_root_guess_(float x, float *s)
{
    float y = tl_from_bits(0x5f131000u - (tl_bits(x) >> 1)), root = x * y;
    float u = tl_fmaf(-root, y, tl_lit(1.1259765625f));
    const float w = tl_fmaf(u, u, tl_lit(1.013671875f));
    *s = root * w;
    return y * w;
}

/* 1 / (sqrt(x) + more) of any x, from s and half, which are sqrt(x) and 1 / (2 sqrt(x)) to 2^-13: one of Newton's steps
 * for the root, and for the quotient a guess, a step to 2^-13 and one of Newton's. */
static inline float tl_inverse_root_any_(float x, float s, float half, float more)
{
    if (tl_bits(x) >= 0x7ef32000u) /* 1.6e38, infinity, NaN, below zero */
        return 1.0f / (__builtin_sqrtf(x) + more);
    float d = tl_fmaf(tl_fmaf(-s, half, tl_lit(1.5f)), s, more);
    float y = tl_from_bits(0x7ef32000u - tl_bits(d)), u = tl_fmaf(-d, y, tl_lit(1.5009765625f));
    y *= tl_fmaf(u, u, tl_lit(0.7490234375f));
    return tl_fmaf(tl_fmaf(-d, y, tl_lit(1.0f)), y, y);
}

/* 1 / (sqrt(x) + more) within 4 ulp, for what adaptive optimizers multiply by: the same multiplications on every
 * machine. From sqrt(x) = 2^12 more on, one of Newton's steps makes 1 / sqrt(x) that of x + 2 more sqrt(x), which is
 * the result to 2^-24, by no more of them than 1 / sqrt(x). 2^-36 <= more < 2^100: the root of a subnormal x is no
 * matter. */
static inline __attribute__((always_inline)) float tl_inverse_rootf(float x, float more)
{
    const uint32_t bits = tl_bits(x), from = tl_bits(more * more * tl_lit(0x1p24f));
    float s;
    const float y = tl_inverse_root_guess_(x, &s), half = tl_from_bits(tl_bits(y) - 0x800000u);
    if (TL_SELDOM(bits - from >= 0x7f800000u - from))
        return tl_inverse_root_any_(x, s, half, more);
    return tl_fmaf(tl_fmaf(-tl_fmaf(x, half, more), y, tl_lit(0.5f)), y, y);
}

/* The same where most roots are below 2^12 more, without the other way. */
static inline __attribute__((always_inline)) float tl_inverse_root_nearf(float x, float more)
{
    float s;
    const float y = tl_inverse_root_guess_(x, &s);
    return tl_inverse_root_any_(x, s, tl_from_bits(tl_bits(y) - 0x800000u), more);
}
#endif
