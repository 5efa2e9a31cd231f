/* Functions whose results are rounded to halves, a step of which is 1 / 2^11 of them: with fewer terms. See tl_math.h.
 */
#ifndef TL_COARSE_H
#define TL_COARSE_H
#include "tl_exp.h"

/* Of what is rounded to a half: 1 / 2^11 of it is a step. The numbers of e^x, of the distribution and of its density.
 */
enum { TL_COARSE_CDF = 7, TL_COARSE_DENSITY = 13 };
static inline __attribute__((always_inline)) float tl_coarse_number_(int i)
{
    static const float all[] = {
        0.0412759595f, 0.167539775f,    0.500051677f,    1.0f,           1.44269502f,    12582912.0f,
        -0.693147182f, 5.75763261e-05f, -0.00102264492f, 0.00974794012f, -0.0663536862f, 0.398916006f,
        0.5f,          0.000468301441f, -0.00685912045f, 0.0481554829f,  -0.198655367f,  0.398846716f};
    return tl_lit(all[i]);
}

/* e^x within 6e-6 of it. */
static inline __attribute__((always_inline)) float tl_coarse_expf(float x)
{
    if (TL_SELDOM(!tl_below_(x, TL_EXP_NEAR)))
        return tl_exp_far_(x);
    const float shifted = tl_fmaf(x, tl_coarse_number_(4), tl_coarse_number_(5));
    const float r = tl_fmaf(shifted - tl_coarse_number_(5), tl_coarse_number_(6), x);
    float p = tl_fmaf(tl_coarse_number_(0), r, tl_coarse_number_(1));
    p = tl_fmaf(p, r, tl_coarse_number_(2));
    p = tl_fmaf(p, r, tl_coarse_number_(3));
    p = tl_fmaf(p, r, tl_coarse_number_(3));
    return tl_from_bits(tl_bits(p) + (tl_bits(shifted) << 23)); /* below what is shifted out is the whole part */
}

/* The normal distribution's function within 7e-6. */
static inline __attribute__((always_inline)) float tl_coarse_gauss_cdff(float x)
{
    if (TL_SELDOM(!tl_below_(x, TL_GAUSS_NEAR)))
        return tl_gauss_cdf_far_(x);
    const float u = x * x;
    float p = tl_fmaf(tl_coarse_number_(TL_COARSE_CDF), u, tl_coarse_number_(TL_COARSE_CDF + 1));
    p = tl_fmaf(p, u, tl_coarse_number_(TL_COARSE_CDF + 2));
    p = tl_fmaf(p, u, tl_coarse_number_(TL_COARSE_CDF + 3));
    p = tl_fmaf(p, u, tl_coarse_number_(TL_COARSE_CDF + 4));
    return tl_fmaf(p, x, tl_coarse_number_(TL_COARSE_CDF + 5));
}

/* Its density, such that x times it is within 3e-5. */
static inline __attribute__((always_inline)) float tl_coarse_gauss_densityf(float x)
{
    if (TL_SELDOM(!tl_below_(x, TL_GAUSS_NEAR)))
        return tl_gauss_density_far_(x);
    const float u = x * x;
    float p = tl_fmaf(tl_coarse_number_(TL_COARSE_DENSITY), u, tl_coarse_number_(TL_COARSE_DENSITY + 1));
    p = tl_fmaf(p, u, tl_coarse_number_(TL_COARSE_DENSITY + 2));
    p = tl_fmaf(p, u, tl_coarse_number_(TL_COARSE_DENSITY + 3));
    return tl_fmaf(p, u, tl_coarse_number_(TL_COARSE_DENSITY + 4));
}
#endif
