/* log x, log(1 + x) and log(1 + e^x). See tl_math.h. */
#ifndef TL_LOG_H
#define TL_LOG_H
#include "tl_exp.h"

/* x = 2^k m, 2/3 <= m < 4/3, for positive finite x. */
static inline float tl_log_reduce_(float x, int32_t *k)
{
    int32_t adjust = 0;
    if (x < tl_lit(1.17549435e-38f)) {
        x *= tl_lit(8388608.0f);
        adjust = 23;
    }
    uint32_t above = (tl_bits(x) - 0x3f2aaaabu) & 0xff800000u;
    *k = ((int32_t)above >> 23) - adjust;
    return tl_from_bits(tl_bits(x) - above);
}

/* (log(1 + f) - f) / f^2 for |f| <= 1/3. */
static inline float tl_log_tail_(float f)
{
    float p = tl_lit(0.119585872f);
    p = tl_fmaf(p, f, tl_lit(-0.128303021f));
    p = tl_fmaf(p, f, tl_lit(0.107695282f));
    p = tl_fmaf(p, f, tl_lit(-0.12199384f));
    p = tl_fmaf(p, f, tl_lit(0.143027186f));
    p = tl_fmaf(p, f, tl_lit(-0.166792974f));
    p = tl_fmaf(p, f, tl_lit(0.199996814f));
    p = tl_fmaf(p, f, tl_lit(-0.249998271f));
    p = tl_fmaf(p, f, tl_lit(0.333333343f));
    return tl_fmaf(p, f, tl_lit(-0.5f));
}

/* log(1 + f) + k ln 2 for |f| <= 1/3. */
static inline float tl_log_sum_(float f, int32_t k)
{
    return tl_fmaf((float)k, tl_lit(0.693147182f), tl_fmaf(tl_log_tail_(f), f * f, f));
}

/* The logarithms outside of the positive finite numbers. */
static inline float tl_log_edge_(float x)
{
    return x == 0.0f ? -TL_INFINITY : x < 0.0f ? TL_NAN : x;
}

static inline float tl_logf(float x)
{
    int32_t k;
    if (!(x > 0.0f && x < TL_INFINITY))
        return tl_log_edge_(x);
    float m = tl_log_reduce_(x, &k);
    return tl_log_sum_(m - tl_lit(1.0f), k);
}

/* With 1 + x = 2^k m roughly, f = x 2^-k + (2^-k - 1) is rounded once, and not at all for k = 0. */
static inline float tl_log1pf(float x)
{
    if (!(x > tl_lit(-1.0f) && x < tl_lit(1e9f)))
        return x > 0.0f ? tl_logf(x) : x == tl_lit(-1.0f) ? -TL_INFINITY : x < tl_lit(-1.0f) ? TL_NAN : x;
    uint32_t above = (tl_bits(tl_lit(1.0f) + x) - 0x3f2aaaabu) & 0xff800000u;
    float scale = tl_from_bits(0x3f800000u - above);
    return tl_copysignf(tl_log_sum_(tl_fmaf(x, scale, scale - tl_lit(1.0f)), (int32_t)above >> 23), x);
}

/* log(1 + e^x), with the larger term taken out. e^-|x| is at most 1: beyond 1/3, 1 + e^-|x| is 2 (1 + f). */
static inline __attribute__((always_inline)) float tl_softplusf(float x)
{
    if (TL_SELDOM(!tl_below_(x, TL_EXP_NEAR)))
        return x > 0.0f ? x : tl_expf(x);
    const uint32_t bits = tl_bits(x), positive = ~((uint32_t)((int32_t)bits >> 31));
    const float e = tl_exp_moderate_(tl_from_bits(bits | 0x80000000u), 0);
    const uint32_t half = (uint32_t)((int32_t)(0x3eaaaaabu - tl_bits(e)) >> 31);
    const float f = tl_fmaf(e, tl_from_bits(0x3f800000u - (half & 0x800000u)), tl_from_bits(half & 0xbf000000u));
    const float tail = tl_fmaf(tl_log_tail_(f), f * f, f) + tl_from_bits(half & tl_bits(0.693147182f));
    return tail + tl_from_bits(bits & positive);
}
#endif
