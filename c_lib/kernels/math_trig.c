/* Sine, cosine, tangent and their inverses. */
#include "tl_math.h"

/* The angle left over after whole quarter turns, in two parts. */
typedef struct {
    int32_t quarters;
    float high, low;
} angle_t;

/* The bits of 2 / pi after the point, behind one word of zeros. */
static const uint32_t TWO_OVER_PI[8] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                        0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

static uint32_t window(uint32_t word, uint32_t shift)
{
    uint64_t pair = (uint64_t)TWO_OVER_PI[word] << 32 | TWO_OVER_PI[word + 1];
    return (uint32_t)(pair << shift >> 32);
}

/* The fraction of a quarter turn in 2^-62, times pi / 2. */
static angle_t angle_of_fraction(int32_t quarters, int64_t fraction)
{
    uint64_t size = fraction < 0 ? -(uint64_t)fraction : (uint64_t)fraction;
    int zeros = 0;
    for (size |= 1u; !(size >> 63); size <<= 1)
        zeros++;
    float scale = tl_from_bits((uint32_t)(127 - 22 - zeros) << 23);
    scale = fraction < 0 ? -scale : scale;
    float high = (float)(int32_t)(size >> 40) * scale;
    float low = (float)(int32_t)(size >> 16 & 0xffffffu) * (scale * 5.96046448e-08f);
    float product = high * tl_lit(1.57079637f);
    float rest = tl_fmaf(high, tl_lit(1.57079637f), -product) +
                 tl_fmaf(low, tl_lit(1.57079637f), high * tl_lit(-4.37113883e-08f));
    float sum = product + rest;
    return (angle_t){quarters, sum, rest - (sum - product)};
}

/* |x| >= 2^16: of x * 2 / pi only the bits below 4 quarters matter, so 96 bits of 2 / pi from the right place suffice.
 */
static angle_t reduce_huge(float x)
{
    uint32_t bits = tl_bits(x), mantissa = (bits & 0x7fffffu) | 0x800000u;
    uint32_t skip = (bits >> 23 & 255u) - 150u + 30u, word = skip >> 5, shift = skip & 31u;
    uint64_t product = (uint64_t)mantissa * window(word + 2, shift) >> 32;
    product += (uint64_t)mantissa * window(word + 1, shift);
    product += (uint64_t)mantissa * window(word, shift) << 32;
    uint32_t quarters = (uint32_t)((product + (UINT64_C(1) << 61)) >> 62);
    int64_t fraction = (int64_t)(product - ((uint64_t)quarters << 62));
    if (bits >> 31)
        return angle_of_fraction(-(int32_t)quarters, -fraction);
    return angle_of_fraction((int32_t)quarters, fraction);
}

/* pi / 2 in three parts; the first step is exact. NaN and infinity give NaN. */
static angle_t reduce(float x)
{
    if (tl_absf(x) < tl_lit(0.785398126f))
        return (angle_t){0, x, 0.0f};
    if (!(tl_absf(x) < TL_INFINITY))
        return (angle_t){0, TL_NAN, 0.0f};
    if (tl_absf(x) >= 65536.0f)
        return reduce_huge(x);
    float shifted = tl_fmaf(x, tl_lit(0.636619747f), TL_ROUNDER), n = shifted - TL_ROUNDER;
    float first = tl_fmaf(n, tl_lit(-1.57079637f), x), step = n * tl_lit(4.37113883e-08f),
          step_low = tl_fmaf(n, tl_lit(4.37113883e-08f), -step);
    float second = first + step, part = second - first;
    float rest = first - (second - part) + (step - part) + tl_fmaf(n, tl_lit(1.71512451e-15f), step_low);
    float sum = second + rest;
    return (angle_t){(int32_t)(tl_bits(shifted) - tl_bits(TL_ROUNDER)), sum, rest - (sum - second)};
}

static float sin_near(angle_t angle)
{
    float r = angle.high, u = r * r, p = tl_lit(2.83703957e-06f);
    p = tl_fmaf(p, u, tl_lit(-0.000198534879f));
    p = tl_fmaf(p, u, tl_lit(0.00833338033f));
    p = tl_fmaf(p, u, tl_lit(-0.166666672f));
    return r + tl_fmaf(r * u, p, angle.low);
}

static float cos_near(angle_t angle)
{
    float r = angle.high, u = r * r, p = tl_lit(-2.89720447e-07f);
    p = tl_fmaf(p, u, tl_lit(2.48229571e-05f));
    p = tl_fmaf(p, u, tl_lit(-0.00138889824f));
    p = tl_fmaf(p, u, tl_lit(0.0416666679f));
    float sum = tl_fmaf(u, -0.5f, 1.0f);
    return sum + (tl_fmaf(u, -0.5f, 1.0f - sum) + tl_fmaf(u * u, p, -r * angle.low));
}

float tl_sinf(float x)
{
    if (tl_absf(x) < 0.000244140625f)
        return x;
    angle_t angle = reduce(x);
    float y = angle.quarters & 1 ? cos_near(angle) : sin_near(angle);
    return angle.quarters & 2 ? -y : y;
}

float tl_cosf(float x)
{
    angle_t angle = reduce(x);
    float y = angle.quarters & 1 ? sin_near(angle) : cos_near(angle);
    return (angle.quarters + 1) & 2 ? -y : y;
}

float tl_tanf(float x)
{
    if (tl_absf(x) < 0.0001220703125f)
        return x;
    angle_t angle = reduce(x);
    float sine = sin_near(angle), cosine = cos_near(angle);
    return angle.quarters & 1 ? -cosine / sine : sine / cosine;
}

/* asin x - x for |x| <= 1/2. */
static float asin_tail(float x, float u)
{
    float p = tl_lit(0.0376731195f);
    p = tl_fmaf(p, u, tl_lit(0.0143291904f));
    p = tl_fmaf(p, u, tl_lit(0.0318360552f));
    p = tl_fmaf(p, u, tl_lit(0.0445136353f));
    p = tl_fmaf(p, u, tl_lit(0.0750052109f));
    p = tl_fmaf(p, u, tl_lit(0.166666597f));
    return x * u * p;
}

/* acos(x) / 2 = asin(sqrt((1 - x) / 2)) for 1/2 <= x <= 1, in two parts: the root and *low. */
static float half_acos(float x, float *low)
{
    float z = tl_fmaf(x, -0.5f, 0.5f), root = tl_sqrtf(z);
    float correction = root > 0.0f ? tl_fmaf(-root, root, z) / (2.0f * root) : 0.0f;
    *low = correction + asin_tail(root, z);
    return root;
}

float tl_asinf(float x)
{
    float size = tl_absf(x), low;
    if (size < 0.5f)
        return x + asin_tail(x, x * x);
    if (!(size <= 1.0f))
        return TL_NAN;
    float root = half_acos(size, &low), high = tl_fmaf(-2.0f, root, tl_lit(1.57079637f));
    float rest = tl_fmaf(-2.0f, root, tl_lit(1.57079637f) - high);
    return tl_copysignf(high + (rest + tl_fmaf(-2.0f, low, tl_lit(-4.37113883e-08f))), x);
}

float tl_acosf(float x)
{
    float size = tl_absf(x), low;
    if (size < 0.5f) {
        float high = tl_lit(1.57079637f) - x;
        return high + (tl_lit(1.57079637f) - high - x - asin_tail(x, x * x) - tl_lit(4.37113883e-08f));
    }
    if (!(size <= 1.0f))
        return TL_NAN;
    float root = half_acos(size, &low);
    if (x > 0.0f)
        return 2.0f * (root + low);
    float high = tl_fmaf(-2.0f, root, tl_lit(3.14159274f)), rest = tl_fmaf(-2.0f, root, tl_lit(3.14159274f) - high);
    return high + (rest + tl_fmaf(-2.0f, low, tl_lit(-8.74227766e-08f)));
}

/* atan x - x for |x| <= 1. */
static float atan_tail(float x)
{
    float u = x * x, p = tl_lit(-0.0018187419f);
    p = tl_fmaf(p, u, tl_lit(0.0110290442f));
    p = tl_fmaf(p, u, tl_lit(-0.0313945375f));
    p = tl_fmaf(p, u, tl_lit(0.0581781007f));
    p = tl_fmaf(p, u, tl_lit(-0.084164612f));
    p = tl_fmaf(p, u, tl_lit(0.109566577f));
    p = tl_fmaf(p, u, tl_lit(-0.142650917f));
    p = tl_fmaf(p, u, tl_lit(0.199986264f));
    p = tl_fmaf(p, u, tl_lit(-0.333333015f));
    return x * u * p;
}

/* base + atan x for |x| <= 1, the base in two parts and at least 1. */
static float atan_from(float base, float base_low, float x)
{
    float high = base + x;
    return high + (base - high + x + (atan_tail(x) + base_low));
}

float tl_atanf(float x)
{
    float size = tl_absf(x);
    float angle =
        size > 1.0f ? atan_from(tl_lit(1.57079637f), tl_lit(-4.37113883e-08f), -1.0f / size) : size + atan_tail(size);
    return tl_copysignf(angle, x);
}

float tl_atan2f(float y, float x)
{
    float up = tl_absf(y), right = tl_absf(x), angle;
    if (x != x || y != y)
        return x + y;
    int left = (int)(tl_bits(x) >> 31);
    if (up > right) {
        float slope = right / up;
        angle = atan_from(tl_lit(1.57079637f), tl_lit(-4.37113883e-08f), left ? slope : -slope);
    } else {
        float slope = up == right ? (float)(up > 0.0f) : up / right;
        angle = left ? atan_from(tl_lit(3.14159274f), tl_lit(-8.74227766e-08f), -slope) : slope + atan_tail(slope);
    }
    return tl_copysignf(angle, y);
}
