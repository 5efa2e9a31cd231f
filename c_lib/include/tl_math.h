/* Elementary functions of our own: the same bits on the host, on RISC-V and on PULP, which no C library promises.
 *
 * Only float adds, multiplications, explicit fused multiply-adds, the IEEE square root and integers; no double, no
 * division in the hot ones (the clusters share one divider), no library calls. Special values follow C99 and PyTorch;
 * the bits of a NaN are not specified. Short or hot functions are inline here, the others live in math*.c. docs/math.md
 * holds the measured maximum error of each, and a test holds it to a bound; tests/c/fit_math.py derives the
 * coefficients. The hot ones (exp, log, tanh, sigmoid, erf, rsqrt) stay within 1 ulp.
 */
#ifndef TL_MATH_H
#define TL_MATH_H
#include <stdint.h>

#define TL_INFINITY __builtin_inff()
#define TL_NAN __builtin_nanf("")
#define TL_ROUNDER 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, which then fills the low bits */

float tl_exp2f(float x);
float tl_log2f(float x);
float tl_log10f(float x);
float tl_powf(float x, float y);
float tl_fmodf(float x, float y);
float tl_sinhf(float x);
float tl_coshf(float x);
float tl_erfcf(float x);
float tl_erfinvf(float x);
float tl_lgammaf(float x);
float tl_digammaf(float x);
float tl_sinf(float x);
float tl_cosf(float x);
float tl_tanf(float x);
float tl_asinf(float x);
float tl_acosf(float x);
float tl_atanf(float x);
float tl_atan2f(float y, float x);

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

/* A NaN in either argument comes out, as with torch.minimum and torch.maximum. */
static inline float tl_minf(float a, float b)
{
    return a < b || a != a ? a : b;
}

static inline float tl_maxf(float a, float b)
{
    return a > b || a != a ? a : b;
}

static inline float tl_sqrtf(float x)
{
    return __builtin_sqrtf(x);
}

static inline float tl_truncf(float x)
{
    return tl_absf(x) < 8388608.0f ? tl_copysignf((float)(int32_t)x, x) : x;
}

static inline float tl_floorf(float x)
{
    float whole = tl_truncf(x);
    return whole > x ? whole - 1.0f : whole;
}

static inline float tl_ceilf(float x)
{
    float whole = tl_truncf(x);
    return whole < x ? whole + 1.0f : whole;
}

/* Halves go to the even neighbour, as torch.round does. */
static inline float tl_roundf(float x)
{
    float size = tl_absf(x);
    return size < 8388608.0f ? tl_copysignf((size + 8388608.0f) - 8388608.0f, x) : x;
}

/* torch.remainder: the sign of the divisor. */
static inline float tl_remainderf(float x, float y)
{
    float rest = tl_fmodf(x, y);
    return rest != 0.0f && (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

/* x * 2^k for -300 <= k <= 255 and x near 1, rounded once: the first factor keeps x normal, the second may not. */
static inline float tl_scale_(float x, int32_t k)
{
    int32_t half = k >> 1;
    return x * tl_from_bits((uint32_t)(half + 127) << 23) * tl_from_bits((uint32_t)(k - half + 127) << 23);
}

/* 1 / d for 1 <= d < 2^120 to about 1 ulp: a seed good to 5 %, a cubic and a quadratic Newton step. */
static inline float tl_reciprocal_(float d)
{
    float y = tl_from_bits(0x7ef31000u - tl_bits(d));
    float e = tl_fmaf(-d, y, 1.0f);
    y = tl_fmaf(y, tl_fmaf(e, e, e), y);
    e = tl_fmaf(-d, y, 1.0f);
    return tl_fmaf(y, e, y);
}

/* e^r - 1 - r for |r| < 0.3475. */
static inline float tl_exp_tail_(float r)
{
    float p = 0.00138119422f;
    p = tl_fmaf(p, r, 0.00836772658f);
    p = tl_fmaf(p, r, 0.0416683592f);
    p = tl_fmaf(p, r, 0.166665316f);
    p = tl_fmaf(p, r, 0.49999994f);
    return r * r * p;
}

/* x = k ln 2 + r, |r| <= ln 2 / 2, for |x| < 1000; the first product is exact because the constant has 15 bits. */
static inline float tl_exp_reduce_(float x, int32_t *k)
{
    float shifted = tl_fmaf(x, 1.44269502f, TL_ROUNDER), n = shifted - TL_ROUNDER;
    *k = (int32_t)(tl_bits(shifted) - tl_bits(TL_ROUNDER));
    return tl_fmaf(n, -1.42860677e-06f, tl_fmaf(n, -0.693145752f, x));
}

static inline float tl_expf(float x)
{
    int32_t k;
    if (!(tl_absf(x) < 87.0f)) /* also NaN, which the selections let through */
        x = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
    float r = tl_exp_reduce_(x, &k), y = 1.0f + (r + tl_exp_tail_(r));
    if ((uint32_t)(k + 125) < 250u)
        return tl_from_bits(tl_bits(y) + ((uint32_t)k << 23));
    return x == x ? tl_scale_(y, k) : x;
}

/* e^x as the unevaluated sum of the result and *low, for |x| < 87. */
static inline float tl_exp_split_(float x, float *low)
{
    int32_t k;
    float r = tl_exp_reduce_(x, &k), tail = tl_exp_tail_(r), rest = r + tail, y = 1.0f + rest;
    float scale = tl_from_bits((uint32_t)(k + 127) << 23);
    *low = (rest - (y - 1.0f) + (r - rest + tail)) * scale;
    return y * scale;
}

/* 1 / (1 + e^-x) = e^x / (1 + e^x), the second for negative x: the exponential is at most 1. */
static inline float tl_sigmoidf(float x)
{
    if (x > 20.0f)
        return 1.0f;
    if (x < -20.0f)
        return tl_expf(x);
    float low, e = tl_exp_split_(-tl_absf(x), &low);
    float d = 1.0f + e, d_low = e - (d - 1.0f) + low, y = tl_reciprocal_(d);
    float top = x < 0.0f ? e : 1.0f, q = top * y;
    float rest = tl_fmaf(-d_low, q, tl_fmaf(-d, q, top)) + (x < 0.0f ? low : 0.0f);
    return tl_fmaf(rest, y, q);
}

/* x + x^3 P(x^2) near zero, 1 - 2 / (e^2x + 1) beyond. */
static inline float tl_tanhf(float x)
{
    float size = tl_absf(x);
    if (size < 0.6f) {
        float u = x * x, p = -0.00589669636f;
        p = tl_fmaf(p, u, 0.0207979325f);
        p = tl_fmaf(p, u, -0.0537846275f);
        p = tl_fmaf(p, u, 0.133319363f);
        p = tl_fmaf(p, u, -0.333332986f);
        return tl_copysignf(tl_fmaf(p * u, x, x), x);
    }
    if (size > 9.1f)
        return tl_copysignf(1.0f, x);
    float low, e = tl_exp_split_(2.0f * size, &low);
    float d = e + 1.0f, d_low = 1.0f - (d - e) + low, y = tl_reciprocal_(d);
    y = tl_fmaf(tl_fmaf(-d_low, y, tl_fmaf(-d, y, 1.0f)), y, y);
    return tl_copysignf(tl_fmaf(-2.0f, y, 1.0f), x);
}

/* erf(x) / x - 1 for |x| < 1. */
static inline float tl_erf_near_(float x)
{
    float u = x * x, p = 7.91918792e-05f;
    p = tl_fmaf(p, u, -0.000803050934f);
    p = tl_fmaf(p, u, 0.00519071659f);
    p = tl_fmaf(p, u, -0.0268551223f);
    p = tl_fmaf(p, u, 0.112836182f);
    p = tl_fmaf(p, u, -0.376126289f);
    return tl_fmaf(p, u, 0.128379166f);
}

/* x + x P(x^2) near zero, 1 - e^-P(x) beyond. */
static inline float tl_erff(float x)
{
    float size = tl_absf(x), p;
    if (size < 1.0f)
        return tl_fmaf(tl_erf_near_(x), x, x);
    if (size > 3.95f)
        return tl_copysignf(1.0f, x);
    p = 4.54239398e-07f;
    p = tl_fmaf(p, size, 1.5234903e-05f);
    p = tl_fmaf(p, size, -0.000402104168f);
    p = tl_fmaf(p, size, 0.00407113275f);
    p = tl_fmaf(p, size, -0.0249305442f);
    p = tl_fmaf(p, size, 0.108056188f);
    p = tl_fmaf(p, size, 0.633509576f);
    p = tl_fmaf(p, size, 1.12944865f);
    float power = tl_fmaf(p, size, -0.000163079865f), low = tl_fmaf(p, size, -power) - 0.000163079865f;
    float rest = tl_expf(-power);
    return tl_copysignf(1.0f - tl_fmaf(-rest, low, rest), x);
}

/* x = 2^k m, 2/3 <= m < 4/3, for positive finite x. */
static inline float tl_log_reduce_(float x, int32_t *k)
{
    int32_t adjust = 0;
    if (x < 1.17549435e-38f) {
        x *= 8388608.0f;
        adjust = 23;
    }
    uint32_t above = (tl_bits(x) - 0x3f2aaaabu) & 0xff800000u;
    *k = ((int32_t)above >> 23) - adjust;
    return tl_from_bits(tl_bits(x) - above);
}

/* (log(1 + f) - f) / f^2 for |f| <= 1/3. */
static inline float tl_log_tail_(float f)
{
    float p = 0.119585872f;
    p = tl_fmaf(p, f, -0.128303021f);
    p = tl_fmaf(p, f, 0.107695282f);
    p = tl_fmaf(p, f, -0.12199384f);
    p = tl_fmaf(p, f, 0.143027186f);
    p = tl_fmaf(p, f, -0.166792974f);
    p = tl_fmaf(p, f, 0.199996814f);
    p = tl_fmaf(p, f, -0.249998271f);
    p = tl_fmaf(p, f, 0.333333343f);
    return tl_fmaf(p, f, -0.5f);
}

/* log(1 + f) + k ln 2 for |f| <= 1/3. */
static inline float tl_log_sum_(float f, int32_t k)
{
    return tl_fmaf((float)k, 0.693147182f, tl_fmaf(tl_log_tail_(f), f * f, f));
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
    return tl_log_sum_(m - 1.0f, k);
}

/* With 1 + x = 2^k m roughly, f = x 2^-k + (2^-k - 1) is rounded once, and not at all for k = 0. */
static inline float tl_log1pf(float x)
{
    if (!(x > -1.0f && x < 1e9f))
        return x > 0.0f ? tl_logf(x) : x == -1.0f ? -TL_INFINITY : x < -1.0f ? TL_NAN : x;
    uint32_t above = (tl_bits(1.0f + x) - 0x3f2aaaabu) & 0xff800000u;
    float scale = tl_from_bits(0x3f800000u - above);
    return tl_copysignf(tl_log_sum_(tl_fmaf(x, scale, scale - 1.0f), (int32_t)above >> 23), x);
}

/* e^x - 1 = 2^k (e^r - 1) + (2^k - 1), with r and the first sum kept in two parts. */
static inline float tl_expm1f(float x)
{
    int32_t k;
    if (!(x < 88.0f && x > -17.5f))
        return x < 0.0f ? -1.0f : tl_expf(x);
    float shifted = tl_fmaf(x, 1.44269502f, TL_ROUNDER), n = shifted - TL_ROUNDER;
    k = (int32_t)(tl_bits(shifted) - tl_bits(TL_ROUNDER));
    float high = tl_fmaf(n, -0.693145752f, x), r = tl_fmaf(n, -1.42860677e-06f, high);
    float r_low = tl_fmaf(n, -1.42860677e-06f, high - r), tail = tl_exp_tail_(r) + r_low;
    if (k == 0)
        return tl_copysignf(r + tail, x);
    float scale = tl_from_bits((uint32_t)(k + 127) << 23), base = scale - 1.0f;
    float sum = tl_fmaf(scale, r, base);
    return sum + tl_fmaf(scale, tail, tl_fmaf(scale, r, base - sum));
}

/* log(1 + e^x), with the larger term taken out: torch's softplus is this below its threshold. */
static inline float tl_softplusf(float x)
{
    float size = tl_absf(x);
    if (!(size < 87.0f))
        return x > 0.0f ? x : tl_expf(x);
    float tail = tl_log1pf(tl_expf(-size));
    return x > 0.0f ? x + tail : tail;
}

/* 1 / sqrt(x): a seed good to 3 %, a cubic step, and another with its residual in two parts. */
static inline float tl_rsqrtf(float x)
{
    float grow = 1.0f;
    if (!(x >= 1.17549435e-38f && x < TL_INFINITY)) {
        if (!(x > 0.0f && x < TL_INFINITY))
            return x == 0.0f ? tl_copysignf(TL_INFINITY, x) : x > 0.0f ? 0.0f : TL_NAN;
        x *= 16777216.0f;
        grow = 4096.0f;
    }
    float y = tl_from_bits(0x5f376000u - (tl_bits(x) >> 1)), root = x * y, e = tl_fmaf(-root, y, 1.0f);
    y = tl_fmaf(y, e * tl_fmaf(e, 0.375f, 0.5f), y);
    root = x * y;
    e = tl_fmaf(-tl_fmaf(x, y, -root), y, tl_fmaf(-root, y, 1.0f));
    return tl_fmaf(y, e * tl_fmaf(e, 0.375f, 0.5f), y) * grow;
}
#endif
