/* What generated loops use besides plain C: our own mathematics, half precision, and Python's rules for integer
 * division. */
#ifndef TL_LOOP_H
#define TL_LOOP_H
#include "tl_adam.h"
#include "tl_half.h"
#include "tl_math.h"
#include "tl_scaled.h"
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

static inline int32_t tl_absi(int32_t x)
{
    return x < 0 ? -x : x;
}

/* Rounds towards minus infinity. */
static inline int32_t tl_floordivi(int32_t a, int32_t b)
{
    const int32_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/* Has the sign of the divisor. */
static inline int32_t tl_remainderi(int32_t a, int32_t b)
{
    return a - tl_floordivi(a, b) * b;
}
#endif
