/* Elementary functions of our own: the same bits on the host, on RISC-V and on PULP, which no C library promises.
 *
 * Only float adds, multiplications, explicit fused multiply-adds, the IEEE square root and integers; no double, no
 * division in the hot ones (the clusters share one divider: see tl_divide.h), no library calls. Special values follow
 * C99 and PyTorch; the bits of a NaN are not specified. Short or hot functions are inline here, the others live in
 * math*.c. docs/math.md holds the measured maximum error of each, and a test holds it to a bound; tests/c/fit_math.py
 * derives the coefficients. The hot ones stay within 1 ulp (exp, log, erf, rsqrt) or as near as PyTorch's (sigmoid,
 *
 * tanh). */
#ifndef TL_MATH_H
#define TL_MATH_H
#include "tl_divide.h"
#include "tl_exp.h"
#include "tl_float.h"
#include "tl_log.h"

float tl_exp2f(float x);
float tl_log2f(float x);
float tl_log10f(float x);
float tl_powf(float x, float y);
float tl_fmodf(float x, float y);
float tl_sinhf(float x);
float tl_coshf(float x);
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

/* torch.remainder: the sign of the divisor. */
static inline float tl_remainderf(float x, float y)
{
    float rest = tl_fmodf(x, y);
    return rest != 0.0f && (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}
#endif
