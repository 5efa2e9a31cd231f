/* The complementary and the inverse error function, log-gamma and its derivative. */
#include "tl_math.h"

/* (1 + 2 x) e^(x^2) erfc(x) - 1 with q = (x - 4) / (x + 4), for 0.75 <= x < 10.1. */
static float erfc_profile(float q)
{
    float p = tl_lit(-0.000143485653f);
    p = tl_fmaf(p, q, tl_lit(0.00536281243f));
    p = tl_fmaf(p, q, tl_lit(-0.0162509754f));
    p = tl_fmaf(p, q, tl_lit(0.0370392241f));
    p = tl_fmaf(p, q, tl_lit(-0.0663761124f));
    p = tl_fmaf(p, q, tl_lit(0.0937445983f));
    p = tl_fmaf(p, q, tl_lit(-0.101029918f));
    p = tl_fmaf(p, q, tl_lit(0.0680969507f));
    p = tl_fmaf(p, q, tl_lit(0.0153791653f));
    p = tl_fmaf(p, q, tl_lit(-0.139621124f));
    return tl_fmaf(p, q, tl_lit(0.232995123f));
}

/* e^(-x^2) (1 + P) / (1 + 2 x) for x >= 0.75, with the square, the quotient and the exponential in two parts. */
static float erfc_tail(float x)
{
    float p = erfc_profile((x - 4.0f) / (x + 4.0f)), top = 1.0f + p, top_low = p - (top - 1.0f);
    float d = tl_fmaf(2.0f, x, 1.0f), d_low = tl_fmaf(2.0f, x, 1.0f - d), inverse = 1.0f / d;
    float q = top * inverse, q_low = (tl_fmaf(-q, d, top) + tl_fmaf(-q, d_low, top_low)) * inverse;
    int32_t k;
    float square = x * x, square_low = tl_fmaf(x, x, -square), r = tl_exp_reduce_(-square, &k);
    float tail = tl_exp_tail_(r), rest = r + tail, rest_low = tl_fmaf(-square_low, 1.0f + rest, r - rest + tail);
    return tl_scale_(q + tl_fmaf(q, rest, tl_fmaf(q_low, rest, tl_fmaf(q, rest_low, q_low))), k);
}

/* 1 - erf x near zero. */
float tl_erfc_far_(float x)
{
    if (x != x)
        return x;
    if (x > tl_lit(10.1f) || x < -4.0f)
        return x > 0.0f ? 0.0f : 2.0f;
    return x < 0.0f ? 2.0f - erfc_tail(-x) : erfc_tail(x);
}

/* x P(w) with w = -log(1 - x^2). */
float tl_erfinvf(float x)
{
    if (!(tl_absf(x) < 1.0f))
        return tl_absf(x) == 1.0f ? tl_copysignf(TL_INFINITY, x) : TL_NAN;
    float w = -tl_logf(tl_fmaf(-x, x, 1.0f)), p;
    if (w < 5.0f) {
        w -= 2.5f;
        p = tl_lit(-1.90274307e-09f);
        p = tl_fmaf(p, w, tl_lit(-8.11043943e-09f));
        p = tl_fmaf(p, w, tl_lit(5.5255061e-08f));
        p = tl_fmaf(p, w, tl_lit(4.58912126e-07f));
        p = tl_fmaf(p, w, tl_lit(-3.6517165e-06f));
        p = tl_fmaf(p, w, tl_lit(-4.9415853e-06f));
        p = tl_fmaf(p, w, tl_lit(0.00021880056f));
        p = tl_fmaf(p, w, tl_lit(-0.00125275564f));
        p = tl_fmaf(p, w, tl_lit(-0.00417777244f));
        p = tl_fmaf(p, w, tl_lit(0.24664028f));
        return tl_fmaf(p, w, tl_lit(1.50140941f)) * x;
    }
    w = tl_sqrtf(w) - 3.0f;
    p = tl_lit(0.000117523763f);
    p = tl_fmaf(p, w, tl_lit(-0.000309181953f));
    p = tl_fmaf(p, w, tl_lit(-6.20885912e-05f));
    p = tl_fmaf(p, w, tl_lit(0.00148475217f));
    p = tl_fmaf(p, w, tl_lit(-0.00359269069f));
    p = tl_fmaf(p, w, tl_lit(0.00568720885f));
    p = tl_fmaf(p, w, tl_lit(-0.00763886701f));
    p = tl_fmaf(p, w, tl_lit(0.00944516622f));
    p = tl_fmaf(p, w, tl_lit(1.00167513f));
    return tl_fmaf(p, w, tl_lit(2.83297682f)) * x;
}

/* log x for positive finite x, as the sum of the result and *low. */
static float log_split(float x, float *low)
{
    int32_t k;
    float f = tl_log_reduce_(x, &k) - 1.0f, whole = (float)k * tl_lit(0.693145752f), sum = whole + f;
    float rest = f - (sum - whole) + tl_fmaf((float)k, tl_lit(1.42860677e-06f), f * f * tl_log_tail_(f));
    float high = sum + rest;
    *low = rest - (high - sum);
    return high;
}

/* lgamma(1 + y) for -0.45 <= y <= 0.55. */
static float lgamma_at_one(float y)
{
    float p = tl_lit(-0.0754676014f);
    p = tl_fmaf(p, y, tl_lit(0.13084425f));
    p = tl_fmaf(p, y, tl_lit(-0.105702035f));
    p = tl_fmaf(p, y, tl_lit(0.0918869078f));
    p = tl_fmaf(p, y, tl_lit(-0.108388558f));
    p = tl_fmaf(p, y, tl_lit(0.12591736f));
    p = tl_fmaf(p, y, tl_lit(-0.144124836f));
    p = tl_fmaf(p, y, tl_lit(0.169565916f));
    p = tl_fmaf(p, y, tl_lit(-0.207403347f));
    p = tl_fmaf(p, y, tl_lit(0.270580202f));
    p = tl_fmaf(p, y, tl_lit(-0.400684655f));
    p = tl_fmaf(p, y, tl_lit(0.822467029f));
    return tl_fmaf(p, y, tl_lit(-0.577215672f)) * y;
}

/* lgamma(2 + z) for -0.45 <= z <= 1. */
static float lgamma_at_two(float z)
{
    float p = tl_lit(-9.18257065e-05f);
    p = tl_fmaf(p, z, tl_lit(0.000267871597f));
    p = tl_fmaf(p, z, tl_lit(-0.000326486101f));
    p = tl_fmaf(p, z, tl_lit(0.000448468752f));
    p = tl_fmaf(p, z, tl_lit(-0.00113010802f));
    p = tl_fmaf(p, z, tl_lit(0.00289551262f));
    p = tl_fmaf(p, z, tl_lit(-0.00739689916f));
    p = tl_fmaf(p, z, tl_lit(0.0205808952f));
    p = tl_fmaf(p, z, tl_lit(-0.0673516169f));
    p = tl_fmaf(p, z, tl_lit(0.322467029f));
    return tl_fmaf(p, z, tl_lit(0.422784328f)) * z;
}

/* Stirling's formula for x >= 3: (x - 1/2) (log x - 1) + (log 2 pi - 1) / 2 + P(1 / x^2) / x. */
static float lgamma_large(float x)
{
    float low, log_x = log_split(x, &low), less = log_x - 1.0f, part = less - log_x;
    low += log_x - (less - part) + (-1.0f - part);
    float half_less = x - 0.5f, half_low = x - half_less - 0.5f, product = half_less * less;
    if (product == TL_INFINITY)
        return product;
    float v = 1.0f / x, u = v * v, p = tl_lit(0.00094070757f);
    p = tl_fmaf(p, u, tl_lit(-0.000677754637f));
    p = tl_fmaf(p, u, tl_lit(0.000801971997f));
    p = tl_fmaf(p, u, tl_lit(-0.00277805817f));
    p = tl_fmaf(p, u, tl_lit(0.0833333358f));
    float rest = tl_fmaf(half_less, low, tl_fmaf(half_less, less, -product)) + half_low * less;
    return product + tl_fmaf(p, v, tl_lit(0.418938547f) + rest);
}

static float lgamma_positive(float x)
{
    if (x < tl_lit(0.55f))
        return lgamma_at_one(x) - tl_logf(x);
    if (x < tl_lit(1.55f))
        return x == 1.0f ? 0.0f : lgamma_at_one(x - 1.0f);
    return x < 3.0f ? lgamma_at_two(x - 2.0f) : lgamma_large(x);
}

/* sin(pi r) / r for |r| <= 1/2. */
static float sinpi_over(float r)
{
    float u = r * r, p = tl_lit(-0.0435938463f);
    p = tl_fmaf(p, u, tl_lit(0.10543967f));
    p = tl_fmaf(p, u, tl_lit(-0.604521811f));
    p = tl_fmaf(p, u, tl_lit(2.5506525f));
    p = tl_fmaf(p, u, tl_lit(-5.1677289f));
    return tl_fmaf(p, u, tl_lit(3.14159274f));
}

/* For x < 0 by reflection: |Gamma(-a)| = Gamma(1 - a) / a = pi / (a sin(pi a) Gamma(a)). */
float tl_lgammaf(float x)
{
    if (x != x)
        return x;
    float size = tl_absf(x);
    if (x == 0.0f || size == TL_INFINITY)
        return TL_INFINITY;
    if (x > 0.0f)
        return lgamma_positive(x);
    float r = size - tl_roundf(size);
    if (r == 0.0f)
        return TL_INFINITY;
    if (size < tl_lit(0.45f))
        return lgamma_at_one(x) - tl_logf(size);
    return tl_lit(1.14472985f) - tl_logf(size * tl_absf(r * sinpi_over(r))) - lgamma_positive(size);
}

/* digamma(1 + t) for 0 <= t <= 1: (t - t0) P(t - 1/2) with its zero in two parts. */
static float digamma_near(float t)
{
    float v = t - 0.5f, p = tl_lit(-0.0161636043f);
    p = tl_fmaf(p, v, tl_lit(0.0238267928f));
    p = tl_fmaf(p, v, tl_lit(-0.0259061512f));
    p = tl_fmaf(p, v, tl_lit(0.0394165665f));
    p = tl_fmaf(p, v, tl_lit(-0.0620333105f));
    p = tl_fmaf(p, v, tl_lit(0.0951072127f));
    p = tl_fmaf(p, v, tl_lit(-0.148400471f));
    p = tl_fmaf(p, v, tl_lit(0.240539089f));
    p = tl_fmaf(p, v, tl_lit(-0.423627466f));
    p = tl_fmaf(p, v, tl_lit(0.951055884f));
    return (t - tl_lit(0.461632133f) - tl_lit(1.24381501e-08f)) * p;
}

/* log x - 1 / 2x - P(1 / x^2) / x^2 for finite x >= 2. */
static float digamma_large(float x)
{
    float low, log_x = log_split(x, &low), v = 1.0f / x, u = v * v, p = tl_lit(-0.00289585581f);
    p = tl_fmaf(p, u, tl_lit(0.00418299809f));
    p = tl_fmaf(p, u, tl_lit(-0.00374490884f));
    p = tl_fmaf(p, u, tl_lit(0.0039381641f));
    p = tl_fmaf(p, u, tl_lit(-0.00833228789f));
    p = tl_fmaf(p, u, tl_lit(0.0833333209f));
    return log_x + tl_fmaf(v, -0.5f, tl_fmaf(-u, p, low));
}

/* pi / tan(pi r) = 1 / r - r P(r^2) for 1e-9 <= |r| <= 1/2. */
static float pi_cotangent(float r)
{
    float inverse = 1.0f / r, u = r * r, p = tl_lit(6.49413013f);
    p = tl_fmaf(p, u, tl_lit(-0.395878166f));
    p = tl_fmaf(p, u, tl_lit(2.60993552f));
    p = tl_fmaf(p, u, tl_lit(1.91761112f));
    p = tl_fmaf(p, u, tl_lit(2.01458836f));
    p = tl_fmaf(p, u, tl_lit(2.03443384f));
    p = tl_fmaf(p, u, tl_lit(2.16465068f));
    p = tl_fmaf(p, u, tl_lit(3.28986812f));
    return inverse + tl_fmaf(-p, r, tl_fmaf(-inverse, r, 1.0f) * inverse);
}

/* For x < 0 by reflection: psi(-a) = psi(1 + a) + pi / tan(pi a). Poles give NaN, zeros the opposite infinity. */
float tl_digammaf(float x)
{
    if (x == 0.0f)
        return tl_copysignf(TL_INFINITY, -x);
    if (!(tl_absf(x) < TL_INFINITY))
        return x > 0.0f ? x : TL_NAN;
    if (x > 0.0f)
        return x < 1.0f ? digamma_near(x) - 1.0f / x : x < 2.0f ? digamma_near(x - 1.0f) : digamma_large(x);
    float size = -x, r = size - tl_roundf(size);
    if (size < tl_lit(1e-9f))
        return 1.0f / size;
    if (r == 0.0f)
        return TL_NAN;
    if (size < 1.0f)
        return digamma_near(size) + pi_cotangent(r);
    return tl_digammaf(size) + 1.0f / size + pi_cotangent(r);
}
