/* Exponentials, logarithms, powers and the remainder: the functions of tl_math.h that are not worth inlining. */
#include "tl_math.h"

/* 2^r for |r| <= 1/2. */
static float exp2_near(float r)
{
    float p = tl_lit(1.46707525e-05f);
    p = tl_fmaf(p, r, tl_lit(0.000154514142f));
    p = tl_fmaf(p, r, tl_lit(0.00133366673f));
    p = tl_fmaf(p, r, tl_lit(0.0096180886f));
    p = tl_fmaf(p, r, tl_lit(0.0555040613f));
    p = tl_fmaf(p, r, tl_lit(0.240226507f));
    p = tl_fmaf(p, r, tl_lit(0.693147182f));
    return tl_fmaf(p, r, 1.0f);
}

float tl_exp2f(float x)
{
    if (x != x)
        return x;
    float inside = x > 129.0f ? 129.0f : x < -151.0f ? -151.0f : x, n = tl_roundf(inside);
    return tl_scale_(exp2_near(inside - n), (int32_t)n);
}

/* log x in another base: k log 2 + log m, where k * two_high is exact and the largest terms are kept in two parts. */
static float log_scaled(float x, float unit, float unit_low, float two_high, float two_low)
{
    int32_t k;
    if (!(x > 0.0f && x < TL_INFINITY))
        return tl_log_edge_(x);
    float f = tl_log_reduce_(x, &k) - 1.0f, whole = (float)k * two_high, tail = f * f * tl_log_tail_(f);
    float sum = tl_fmaf(f, unit, whole), low = tl_fmaf(f, unit, whole - sum);
    return sum + (low + tl_fmaf(tail, unit, tl_fmaf(f, unit_low, (float)k * two_low)));
}

float tl_log2f(float x)
{
    return log_scaled(x, tl_lit(1.44269502f), tl_lit(1.92596303e-08f), 1.0f, 0.0f);
}

float tl_log10f(float x)
{
    return log_scaled(x, tl_lit(0.434294492f), tl_lit(-1.010305e-08f), 0.301025391f, tl_lit(4.60503907e-06f));
}

/* atanh(s) for s = high + low, |high| <= 0.2: s + s w, w = u / 3 + u^2 P(u) in two parts. */
static float atanh_split(float s, float s_low, float *low)
{
    float u = s * s, u_low = tl_fmaf(s, s, -u) + 2.0f * s * s_low;
    float p = tl_lit(0.0996042341f);
    p = tl_fmaf(p, u, tl_lit(0.110777654f));
    p = tl_fmaf(p, u, tl_lit(0.142862335f));
    p = tl_fmaf(p, u, tl_lit(0.199999973f)) * u;
    float third = tl_lit(0.333333343f) + p, third_low = p - (third - tl_lit(0.333333343f)) - tl_lit(9.93410776e-09f);
    float w = u * third, w_low = tl_fmaf(u, third, -w) + u * third_low + u_low * third;
    float term = s * w, term_low = tl_fmaf(s, w, -term) + s * w_low + s_low * w;
    float sum = s + term, rest = term - (sum - s) + (term_low + s_low);
    float high = sum + rest;
    *low = rest - (high - sum);
    return high;
}

/* log2 x for positive finite x, as the sum of the result and *low, to about 2^-40. */
static float log2_split(float x, float *low)
{
    int32_t k;
    float f = tl_log_reduce_(x, &k) - 1.0f, d = 2.0f + f, d_low = f - (d - 2.0f);
    float s = f / d, s_low = tl_fmaf(-s, d_low, tl_fmaf(-s, d, f)) / d, half_low;
    float half = atanh_split(s, s_low, &half_low);
    float part = half * tl_lit(2.88539004f);
    float part_low =
        tl_fmaf(half, tl_lit(2.88539004f), -part) + half * tl_lit(3.85192607e-08f) + half_low * tl_lit(2.88539004f);
    float sum = (float)k + part, rest = part - (sum - (float)k) + part_low;
    float high = sum + rest;
    *low = rest - (high - sum);
    return high;
}

/* x^y for positive finite x and finite y: 2^(y log2 x). */
static float pow_positive(float x, float y)
{
    float low, high = log2_split(x, &low), power = y * high;
    if (!(tl_absf(power) < 200.0f))
        return power > 0.0f ? TL_INFINITY : 0.0f;
    float rest = tl_fmaf(y, high, -power) + y * low, n = tl_roundf(power);
    return tl_scale_(exp2_near((power - n) + rest), (int32_t)n);
}

/* 0 for a fraction, 1 for an odd number, 2 for an even one. */
static int parity(float y)
{
    if (tl_absf(y) >= 16777216.0f)
        return 2;
    int32_t whole = (int32_t)y;
    return (float)whole != y ? 0 : whole & 1 ? 1 : 2;
}

float tl_powf(float x, float y)
{
    float size = tl_absf(x), sign = 1.0f;
    if (y == 0.0f || x == 1.0f)
        return 1.0f;
    if (x != x || y != y)
        return x + y;
    if (tl_bits(x) >> 31) {
        int kind = parity(y);
        if (kind == 0 && size > 0.0f && size < TL_INFINITY)
            return TL_NAN;
        sign = kind == 1 ? -1.0f : 1.0f;
    }
    if (size == 1.0f)
        return sign;
    if (size == 0.0f || size == TL_INFINITY)
        return (size == 0.0f) == (y < 0.0f) ? sign * TL_INFINITY : sign * 0.0f;
    if (tl_isinff(y))
        return (size > 1.0f) == (y > 0.0f) ? TL_INFINITY : 0.0f;
    return sign * pow_positive(size, y);
}

/* |x| = mantissa * 2^(exponent - 150), the exponent at least 1. */
static uint32_t mantissa_of(float x, int32_t *exponent)
{
    uint32_t bits = tl_bits(x) & 0x7fffffffu;
    *exponent = (int32_t)(bits >> 23);
    if (*exponent > 0)
        return (bits & 0x7fffffu) | 0x800000u;
    *exponent = 1;
    return bits;
}

/* Exact: long division of the mantissas, 8 bits at a time. */
float tl_fmodf(float x, float y)
{
    if (x != x || y != y || tl_isinff(x) || y == 0.0f)
        return TL_NAN;
    if (tl_absf(x) < tl_absf(y))
        return x;
    int32_t place, last;
    uint32_t rest = mantissa_of(x, &place), divisor = mantissa_of(y, &last);
    rest %= divisor;
    for (int32_t shift = place - last, step; shift > 0 && rest; shift -= step) {
        step = shift < 8 ? shift : 8;
        rest = (rest << step) % divisor;
    }
    return tl_copysignf(tl_scale_((float)rest, last - 150), x);
}

/* e^x / 2 for x >= 20, without the early overflow. */
static float half_exp(float x)
{
    int32_t k;
    if (x != x)
        return x;
    float r = tl_exp_reduce_(x > 90.0f ? 90.0f : x, &k);
    return tl_scale_(1.0f + (r + tl_exp_tail_(r)), k - 1);
}

/* x + x u P(u) with u = x^2 near zero, (e^x - e^-x) / 2 beyond. */
float tl_sinhf(float x)
{
    float size = tl_absf(x), low;
    if (size < 1.0f) {
        float u = x * x, p = tl_lit(2.78392554e-06f);
        p = tl_fmaf(p, u, tl_lit(0.000198426351f));
        p = tl_fmaf(p, u, tl_lit(0.00833331142f));
        p = tl_fmaf(p, u, tl_lit(0.166666672f));
        return tl_fmaf(p * u, x, x);
    }
    if (!(size < 20.0f))
        return tl_copysignf(half_exp(size), x);
    float grow = tl_exp_split_(size, &low), shrink = 1.0f / grow, sum = grow - shrink;
    return tl_copysignf(0.5f * (sum + (grow - sum - shrink + low)), x);
}

float tl_coshf(float x)
{
    float size = tl_absf(x), low;
    if (!(size < 20.0f))
        return half_exp(size);
    float grow = tl_exp_split_(size, &low), shrink = 1.0f / grow, sum = grow + shrink;
    return 0.5f * (sum + (grow - sum + shrink + low));
}
