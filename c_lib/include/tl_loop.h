/* What generated loops use besides plain C: our own mathematics, half precision, and whole numbers by the
 * rules of PyTorch and Python. */
#ifndef TL_LOOP_H
#define TL_LOOP_H
#include "tl_adaptive.h"
#include "tl_curves.h"
#include "tl_half.h"
#include "tl_math.h"
#include "tl_scaled.h"
#include "tl_silu.h"
#include <stdint.h>

/* A result that only a build keeps which records all gradients. */
#ifdef NET_TRACE
#define TL_RECORD(statement) statement
#else
#define TL_RECORD(statement)
#endif

/* A row's next element, and its place: with PULP's own instructions, the loads and stores themselves go on. */
#if defined(TL_XPULP) && defined(__riscv_zfinx) && defined(__OPTIMIZE__)
/* clang-format off */
/* A hardware loop of so many halfwords; [n] says how often. */
#define TL_ROW_BEGIN(halfwords) ".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[n]", halfwords)
#define TL_ROW_END ".option pop\n"
/* A count that the compiler cannot know: blocks of a sum share the code of one, which a core's buffer holds. */
#define TL_ONE_BLOCK(left) __asm__("" : "+r"(left));
#ifdef TL_XF16AUXVEC
#define TL_ROW_OF_HALVES
#endif
/* clang-format on */

static inline __attribute__((always_inline)) float tl_next(const float **row)
{
    const float *at = *row, *next;
    float value;
    __asm__(TL_LOAD("%0", "%1") : "=&r"(value), "=r"(next) : "1"(at), "m"(*at));
    *row = next;
    return value;
}

static inline __attribute__((always_inline)) void tl_put(float **row, float value)
{
    float *at = *row, *next;
    __asm__(TL_STORE_ON("%3", "%0") : "=r"(next), "=m"(*at) : "0"(at), "r"(value));
    *row = next;
}
#else
static inline __attribute__((always_inline)) float tl_next(const float **row)
{
    return *(*row)++;
}

static inline __attribute__((always_inline)) void tl_put(float **row, float value)
{
    *(*row)++ = value;
}
#endif

/* Whole numbers wrap around at 32 bits, as PyTorch's do; C leaves that undefined where they have a sign. */
static inline int32_t tl_addi(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t tl_subi(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static inline int32_t tl_muli(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

static inline int32_t tl_negi(int32_t a)
{
    return (int32_t)(0u - (uint32_t)a);
}

/* Towards zero; what is beyond 32 bits becomes the nearest one, and NaN the least. C leaves these undefined, and
 * processors differ. */
static inline int32_t tl_wholef(float x)
{
    if (x < 0x1p31f)
        return x >= -0x1p31f ? (int32_t)x : INT32_MIN;
    return x == x ? INT32_MAX : INT32_MIN;
}

static inline int32_t tl_absi(int32_t a)
{
    return a < 0 ? tl_negi(a) : a;
}

/* Nothing is left of 32 bits; less than none are as many. */
static inline int32_t tl_lefti(int32_t a, int32_t by)
{
    return (uint32_t)by < 32 ? (int32_t)((uint32_t)a << by) : 0;
}

static inline int32_t tl_righti(int32_t a, int32_t by)
{
    return a >> ((uint32_t)by < 32 ? by : 31);
}

/* Rounded towards zero. */
static inline int32_t tl_dividei(int32_t a, int32_t b)
{
    return b == -1 ? tl_negi(a) : a / b;
}

/* Has the sign of what is divided. */
static inline int32_t tl_resti(int32_t a, int32_t b)
{
    return b == -1 ? 0 : a % b;
}

/* Rounds towards minus infinity. */
static inline int32_t tl_floordivi(int32_t a, int32_t b)
{
    const int32_t q = tl_dividei(a, b), rest = tl_resti(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? q - 1 : q;
}

/* Has the sign of the divisor. */
static inline int32_t tl_remainderi(int32_t a, int32_t b)
{
    const int32_t rest = tl_resti(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
#endif
