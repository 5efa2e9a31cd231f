/* e^x and what is made of it: sigmoid, tanh, erf, e^x - 1. See tl_math.h. */
#ifndef TL_EXP_H
#define TL_EXP_H
#include "tl_float.h"

#define TL_ROUNDER tl_lit(12582912.0f) /* 1.5 * 2^23: adding it rounds to an integer, which then fills the low bits */

/* The numbers of e^x, sigmoid and tanh: 1 / ln 2, what rounds, ln 2 in two parts (negative), 1, the series of e^x and
 * that of tanh. What goes through many elements has them in its instructions, or in registers. Where there are few,
 * they may lie in memory of the innermost level: a load each is shorter. */
#define TL_EXP_NUMBERS(number)                                                                                         \
    number(1.44269502f), number(12582912.0f), number(-0.693145752f), number(-1.42860677e-06f), number(1.0f),           \
        number(0.00138119422f), number(0.00836772658f), number(0.0416683592f), number(0.166665316f),                   \
        number(0.49999994f), number(-0.00589669636f), number(0.0207979325f), number(-0.0537846275f),                   \
        number(0.133319363f), number(-0.333332986f)
enum { TL_PER_LN2, TL_ROUND, TL_LN2, TL_LN2_LOW, TL_ONE, TL_EXP_SERIES, TL_TANH_SERIES = 10, TL_EXP_COUNT = 15 };

typedef struct {
    float of[TL_EXP_COUNT];
} tl_exp_numbers;

static inline tl_exp_numbers tl_exp_numbers_(void)
{
    return (tl_exp_numbers){{TL_EXP_NUMBERS(tl_lit)}};
}

/* Number i, a literal, from memory, or part of the instructions where that is NULL. */
static inline __attribute__((always_inline)) float tl_number_(const tl_exp_numbers *k, int i)
{
    static const float all[] = {TL_EXP_NUMBERS()};
    return k ? k->of[i] : tl_lit(all[i]);
}

/* The polynomial in x whose five coefficients are numbers i to i + 4. */
static inline __attribute__((always_inline)) float tl_series_(float x, const tl_exp_numbers *k, int i)
{
    float p = tl_number_(k, i);
    p = tl_fmaf(p, x, tl_number_(k, i + 1));
    p = tl_fmaf(p, x, tl_number_(k, i + 2));
    p = tl_fmaf(p, x, tl_number_(k, i + 3));
    return tl_fmaf(p, x, tl_number_(k, i + 4));
}

/* x * 2^k for -300 <= k <= 255 and x near 1, rounded once: the first factor keeps x normal, the second may not. */
static inline float tl_scale_(float x, int32_t k)
{
    int32_t half = k >> 1;
    return x * tl_from_bits((uint32_t)(half + 127) << 23) * tl_from_bits((uint32_t)(k - half + 127) << 23);
}

/* 1 / d for 1 <= d < 2^120 to about 1 ulp: a seed good to 5 %, a cubic and a quadratic Newton step. */
static inline float tl_reciprocal_(float d, const tl_exp_numbers *k)
{
    float y = tl_from_bits(0x7ef31000u - tl_bits(d));
    float e = tl_fmaf(-d, y, tl_number_(k, TL_ONE));
    y = tl_fmaf(y, tl_fmaf(e, e, e), y);
    e = tl_fmaf(-d, y, tl_number_(k, TL_ONE));
    return tl_fmaf(y, e, y);
}

/* e^r - 1 - r for |r| < 0.3475. */
static inline float tl_exp_tail_(float r)
{
    return r * r * tl_series_(r, 0, TL_EXP_SERIES);
}

static inline float tl_exp_near_(float r, const tl_exp_numbers *k)
{
    return tl_fmaf(tl_fmaf(tl_series_(r, k, TL_EXP_SERIES), r, tl_number_(k, TL_ONE)), r, tl_number_(k, TL_ONE));
}

/* x = k ln 2 + r, |r| <= ln 2 / 2, for |x| < 1000; the first product is exact because the constant has 15 bits. */
static inline float tl_exp_reduce_by_(float x, int32_t *k, const tl_exp_numbers *numbers)
{
    float shifted = tl_fmaf(x, tl_number_(numbers, TL_PER_LN2), tl_number_(numbers, TL_ROUND));
    float n = shifted - tl_number_(numbers, TL_ROUND);
    *k = (int32_t)(tl_bits(shifted) - tl_bits(TL_ROUNDER));
    return tl_fmaf(n, tl_number_(numbers, TL_LN2_LOW), tl_fmaf(n, tl_number_(numbers, TL_LN2), x));
}

static inline float tl_exp_reduce_(float x, int32_t *k)
{
    return tl_exp_reduce_by_(x, k, 0);
}

/* The bits of 87, 80 and 1.75: what is beyond has code of its own. */
enum { TL_EXP_NEAR = 0x42ae0000, TL_SIGMOID_NEAR = 0x42a00000, TL_GAUSS_NEAR = 0x3fe00000 };

/* |x| < limit, of a limit's bits: a comparison of integers, as the float unit is busy. NaN is nowhere below. */
static inline int tl_below_(float x, uint32_t limit)
{
    return (tl_bits(x) & 0x7fffffffu) < limit;
}

/* e^x for |x| < 87, where no exponent leaves its range. */
static inline float tl_exp_moderate_(float x, const tl_exp_numbers *numbers)
{
    int32_t k;
    float y = tl_exp_near_(tl_exp_reduce_by_(x, &k, numbers), numbers);
    return tl_from_bits(tl_bits(y) + ((uint32_t)k << 23));
}

/* e^x for |x| >= 87, or NaN, which the selections let through. */
static __attribute__((noinline, unused)) float tl_exp_far_(float x)
{
    int32_t k;
    x = x > tl_lit(89.0f) ? tl_lit(89.0f) : x < tl_lit(-104.0f) ? tl_lit(-104.0f) : x;
    float y = tl_exp_near_(tl_exp_reduce_(x, &k), 0);
    return x == x ? tl_scale_(y, k) : x;
}

static inline __attribute__((always_inline)) float tl_expf(float x)
{
    return TL_SELDOM(!tl_below_(x, TL_EXP_NEAR)) ? tl_exp_far_(x) : tl_exp_moderate_(x, 0);
}

/* e^x as the unevaluated sum of the result and *low, for |x| < 87. */
static inline float tl_exp_split_(float x, float *low)
{
    int32_t k;
    float r = tl_exp_reduce_(x, &k), tail = tl_exp_tail_(r), rest = r + tail, y = tl_lit(1.0f) + rest;
    float scale = tl_from_bits((uint32_t)(k + 127) << 23);
    *low = (rest - (y - tl_lit(1.0f)) + (r - rest + tail)) * scale;
    return y * scale;
}

/* 1 / (1 + e^-x), as exact as PyTorch's. A loop that called it would put its numbers together for each element. */
static inline __attribute__((always_inline)) float tl_sigmoid_by(float x, const tl_exp_numbers *k)
{
    if (TL_SELDOM(!tl_below_(x, TL_SIGMOID_NEAR)))
        return x > 0.0f ? tl_number_(k, TL_ONE) : tl_expf(x);
    return tl_reciprocal_(tl_number_(k, TL_ONE) + tl_exp_moderate_(-x, k), k);
}

static inline __attribute__((always_inline)) float tl_sigmoidf(float x)
{
    return tl_sigmoid_by(x, 0);
}

/* x + x^3 P(x^2) near zero, 1 - 2 / (e^2x + 1) beyond. */
static inline __attribute__((always_inline)) float tl_tanh_by(float x, const tl_exp_numbers *k)
{
    float size = tl_absf(x);
    if (size < tl_lit(0.6f)) {
        float u = x * x, p = tl_series_(u, k, TL_TANH_SERIES);
        return tl_copysignf(tl_fmaf(p * u, x, x), x);
    }
    if (!(size <= tl_lit(9.1f)))
        return x == x ? tl_copysignf(tl_number_(k, TL_ONE), x) : x;
    float y = tl_reciprocal_(tl_number_(k, TL_ONE) + tl_exp_moderate_(tl_lit(2.0f) * size, k), k);
    return tl_copysignf(tl_fmaf(tl_lit(-2.0f), y, tl_number_(k, TL_ONE)), x);
}

static inline float tl_tanhf(float x)
{
    return tl_tanh_by(x, 0);
}

/* erf(x) / x - 1 for |x| < 1. */
static inline float tl_erf_near_(float x)
{
    float u = x * x, p = tl_lit(7.91918792e-05f);
    p = tl_fmaf(p, u, tl_lit(-0.000803050934f));
    p = tl_fmaf(p, u, tl_lit(0.00519071659f));
    p = tl_fmaf(p, u, tl_lit(-0.0268551223f));
    p = tl_fmaf(p, u, tl_lit(0.112836182f));
    p = tl_fmaf(p, u, tl_lit(-0.376126289f));
    return tl_fmaf(p, u, tl_lit(0.128379166f));
}

/* 1 - erf(x) for |x| >= 0.75, or NaN. */
float tl_erfc_far_(float x);

static inline __attribute__((always_inline)) float tl_erfcf(float x)
{
    if (!(tl_absf(x) < tl_lit(0.75f)))
        return tl_erfc_far_(x);
    float high = tl_lit(1.0f) - x;
    return high + tl_fmaf(-tl_erf_near_(x), x, tl_lit(1.0f) - high - x);
}

/* The numbers of the normal distribution's function and of its density near zero: the first 7 and 8. */
static inline __attribute__((always_inline)) float tl_gauss_number_(int i)
{
    static const float all[] = {3.2198048e-07f,   -7.98654764e-06f, 0.000112023183f,  -0.00118284859f,
                                0.00997040514f,   -0.0664893463f,   0.398942173f,     0.5f,
                                -2.61466909e-07f, 6.9064813e-06f,   -9.90102126e-05f, 0.00103103602f,
                                -0.00830417406f,  0.0498645231f,    -0.19947055f,     0.398942262f};
    return tl_lit(all[i]);
}

/* The normal distribution's function, erfc(-x / sqrt 2) / 2, for |x| >= 1.75. */
static inline float tl_gauss_cdf_far_(float x)
{
    return tl_lit(0.5f) * tl_erfc_far_(x * tl_lit(-0.707106781f));
}

/* The same: 1 / 2 + x P(x^2) near zero. */
static inline __attribute__((always_inline)) float tl_gauss_cdff(float x)
{
    if (TL_SELDOM(!tl_below_(x, TL_GAUSS_NEAR)))
        return tl_gauss_cdf_far_(x);
    float u = x * x, p = tl_gauss_number_(0);
    p = tl_fmaf(p, u, tl_gauss_number_(1));
    p = tl_fmaf(p, u, tl_gauss_number_(2));
    p = tl_fmaf(p, u, tl_gauss_number_(3));
    p = tl_fmaf(p, u, tl_gauss_number_(4));
    p = tl_fmaf(p, u, tl_gauss_number_(5));
    p = tl_fmaf(p, u, tl_gauss_number_(6));
    return tl_fmaf(p, x, tl_gauss_number_(7));
}

/* The normal density for |x| >= 1.75, of the square in two parts. */
static __attribute__((noinline, unused)) float tl_gauss_density_far_(float x)
{
    if (!(tl_absf(x) < tl_lit(15.0f)))
        return x == x ? 0.0f : x;
    float square = x * x, y = tl_lit(0.398942280f) * tl_expf(tl_lit(-0.5f) * square);
    return tl_fmaf(y, tl_lit(-0.5f) * tl_fmaf(x, x, -square), y);
}

/* e^(-x^2 / 2) / sqrt(2 pi), the normal density: P(x^2) near zero. */
static inline __attribute__((always_inline)) float tl_gauss_densityf(float x)
{
    if (TL_SELDOM(!tl_below_(x, TL_GAUSS_NEAR)))
        return tl_gauss_density_far_(x);
    float u = x * x, p = tl_gauss_number_(8);
    p = tl_fmaf(p, u, tl_gauss_number_(9));
    p = tl_fmaf(p, u, tl_gauss_number_(10));
    p = tl_fmaf(p, u, tl_gauss_number_(11));
    p = tl_fmaf(p, u, tl_gauss_number_(12));
    p = tl_fmaf(p, u, tl_gauss_number_(13));
    p = tl_fmaf(p, u, tl_gauss_number_(14));
    return tl_fmaf(p, u, tl_gauss_number_(15));
}

/* x + x P(x^2) near zero, 1 - e^-P(x) beyond. */
static inline float tl_erff(float x)
{
    float size = tl_absf(x), p;
    if (size < tl_lit(1.0f))
        return tl_fmaf(tl_erf_near_(x), x, x);
    if (size > tl_lit(3.95f))
        return tl_copysignf(tl_lit(1.0f), x);
    p = tl_lit(4.54239398e-07f);
    p = tl_fmaf(p, size, tl_lit(1.5234903e-05f));
    p = tl_fmaf(p, size, tl_lit(-0.000402104168f));
    p = tl_fmaf(p, size, tl_lit(0.00407113275f));
    p = tl_fmaf(p, size, tl_lit(-0.0249305442f));
    p = tl_fmaf(p, size, tl_lit(0.108056188f));
    p = tl_fmaf(p, size, tl_lit(0.633509576f));
    p = tl_fmaf(p, size, tl_lit(1.12944865f));
    float power = tl_fmaf(p, size, tl_lit(-0.000163079865f)), low = tl_fmaf(p, size, -power) - tl_lit(0.000163079865f);
    float rest = tl_expf(-power);
    return tl_copysignf(tl_lit(1.0f) - tl_fmaf(-rest, low, rest), x);
}

/* e^x - 1 = 2^k (e^r - 1) + (2^k - 1), with r and the first sum kept in two parts. */
static inline float tl_expm1f(float x)
{
    int32_t k;
    if (!(x < tl_lit(88.0f) && x > tl_lit(-17.5f)))
        return x < 0.0f ? tl_lit(-1.0f) : tl_expf(x);
    float shifted = tl_fmaf(x, tl_lit(1.44269502f), TL_ROUNDER), n = shifted - TL_ROUNDER;
    k = (int32_t)(tl_bits(shifted) - tl_bits(TL_ROUNDER));
    float high = tl_fmaf(n, tl_lit(-0.693145752f), x), r = tl_fmaf(n, tl_lit(-1.42860677e-06f), high);
    float r_low = tl_fmaf(n, tl_lit(-1.42860677e-06f), high - r), tail = tl_exp_tail_(r) + r_low;
    if (k == 0)
        return tl_copysignf(r + tail, x);
    float scale = tl_from_bits((uint32_t)(k + 127) << 23), base = scale - tl_lit(1.0f);
    float sum = tl_fmaf(scale, r, base);
    return sum + tl_fmaf(scale, tail, tl_fmaf(scale, r, base - sum));
}
#endif
