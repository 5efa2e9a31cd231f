/* Bits, signs, comparisons and rounding of floats, and 1 / sqrt(x). */
#ifndef TL_FLOAT_H
#define TL_FLOAT_H
#include <stdint.h>

#define TL_INFINITY tl_lit(__builtin_inff())
#define TL_NAN tl_lit(__builtin_nanf(""))

/* What a compiler keeps no registers for. */
#define TL_SELDOM(condition) __builtin_expect(!!(condition), 0)

static inline uint32_t tl_bits(float x)
{
    union {
        float value;
        uint32_t bits;
    } pun = {x};
    return pun.bits;
}

static inline float tl_from_bits(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } pun = {bits};
    return pun.value;
}

/* A number that becomes part of the instructions. Where code and constants lie in L2, a compiler's own choice, a load,
 * takes some 15 cycles, and a loop with many of them has no registers to keep them in. One `lui` needs no help in
 * clang. */
static inline float tl_lit(float value)
{
#if defined(__riscv)
    uint32_t bits = tl_bits(value);
#if defined(__clang__)
    if ((bits & 0xfffu) == 0)
        return value;
#endif
    __asm__("" : "+r"(bits));
    return tl_from_bits(bits);
#else
    return value;
#endif
}

static inline float tl_fmaf(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

static inline float tl_absf(float x)
{
    return __builtin_fabsf(x);
}

static inline float tl_copysignf(float size, float sign)
{
    return __builtin_copysignf(size, sign);
}

static inline int tl_isnanf(float x)
{
    return x != x;
}

static inline int tl_isinff(float x)
{
    return tl_absf(x) == TL_INFINITY;
}

static inline int tl_isfinitef(float x)
{
    return tl_absf(x) < TL_INFINITY;
}

/* -1, 0 or 1; NaN gives 0, as torch.sign does. */
static inline float tl_signf(float x)
{
    return (float)((x > 0.0f) - (x < 0.0f));
}

/* condition ? yes : no without a branch; the condition is 0 or 1. A compiler that sees where it comes from makes a
 * branch of it. */
static inline float tl_selectf(int condition, float yes, float no)
{
#if defined(__riscv)
    __asm__("" : "+r"(condition));
#endif
    return tl_from_bits(tl_bits(no) ^ ((tl_bits(yes) ^ tl_bits(no)) & (0u - (uint32_t)condition)));
}

/* The larger and the smaller one for a limit that is a number: NaN comes out. */
static inline float tl_at_leastf(float x, float limit)
{
    return tl_selectf(x <= limit, limit, x);
}

static inline float tl_at_mostf(float x, float limit)
{
    return tl_selectf(x >= limit, limit, x);
}

/* A NaN in either argument comes out, as with torch.minimum and torch.maximum. */
static inline float tl_minf(float a, float b)
{
    return a < b || a != a ? a : b;
}

static inline float tl_maxf(float a, float b)
{
    return a > b || a != a ? a : b;
}

/* The same as a fold goes on: seldom is an element beyond all before it, and then one of these may be a NaN. Of equal
 * ones the first stays. */
static inline float tl_smaller_yetf(float least, float x)
{
    if (TL_SELDOM(!(x >= least)) && least == least)
        least = x;
    return least;
}

static inline float tl_larger_yetf(float most, float x)
{
    if (TL_SELDOM(!(x <= most)) && most == most)
        most = x;
    return most;
}

static inline float tl_truncf(float x)
{
    return tl_absf(x) < tl_lit(8388608.0f) ? tl_copysignf((float)(int32_t)x, x) : x;
}

static inline float tl_floorf(float x)
{
    float whole = tl_truncf(x);
    return whole > x ? whole - tl_lit(1.0f) : whole;
}

static inline float tl_ceilf(float x)
{
    float whole = tl_truncf(x);
    return whole < x ? whole + tl_lit(1.0f) : whole;
}

/* x = mantissa * 2^exponent, the mantissa from 1/2 to 1; zero, infinities and NaN are their own, with 0. */
static inline int32_t tl_exponentf(float x)
{
    float size = tl_absf(x);
    if (!(size > 0.0f && size < TL_INFINITY))
        return 0;
    int32_t grown = size < tl_lit(1.17549435e-38f) ? 24 : 0;
    return (int32_t)(tl_bits(grown ? size * tl_lit(16777216.0f) : size) >> 23) - 126 - grown;
}

static inline float tl_mantissaf(float x)
{
    if (!(tl_absf(x) > 0.0f && tl_absf(x) < TL_INFINITY))
        return x;
    float normal = tl_absf(x) < tl_lit(1.17549435e-38f) ? x * tl_lit(16777216.0f) : x;
    return tl_from_bits((tl_bits(normal) & 0x807fffffu) | 0x3f000000u);
}

static inline float tl_nextafterf(float x, float toward)
{
    if (x != x || toward != toward)
        return x + toward;
    if (x == toward)
        return toward;
    if (x == 0.0f)
        return tl_copysignf(tl_from_bits(1), toward);
    return tl_from_bits((x < toward) == (x > 0.0f) ? tl_bits(x) + 1 : tl_bits(x) - 1);
}

/* Halves go to the even neighbour, as torch.round does. */
static inline float tl_roundf(float x)
{
    float size = tl_absf(x);
    return size < tl_lit(8388608.0f) ? tl_copysignf((size + tl_lit(8388608.0f)) - tl_lit(8388608.0f), x) : x;
}

/* 1 / sqrt(x): a seed good to 3 %, a cubic step, and another with its residual in two parts. */
static inline float tl_rsqrtf(float x)
{
    float grow = tl_lit(1.0f);
    if (!(x >= tl_lit(1.17549435e-38f) && x < TL_INFINITY)) {
        if (!(x > 0.0f && x < TL_INFINITY))
            return x == 0.0f ? tl_copysignf(TL_INFINITY, x) : x > 0.0f ? 0.0f : TL_NAN;
        x *= tl_lit(16777216.0f);
        grow = tl_lit(4096.0f);
    }
    float y = tl_from_bits(0x5f376000u - (tl_bits(x) >> 1)), root = x * y, e = tl_fmaf(-root, y, tl_lit(1.0f));
    y = tl_fmaf(y, e * tl_fmaf(e, tl_lit(0.375f), tl_lit(0.5f)), y);
    root = x * y;
    e = tl_fmaf(-tl_fmaf(x, y, -root), y, tl_fmaf(-root, y, tl_lit(1.0f)));
    return tl_fmaf(y, e * tl_fmaf(e, tl_lit(0.375f), tl_lit(0.5f)), y) * grow;
}
#endif
