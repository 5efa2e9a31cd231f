/* What generated loops use besides plain C: our own mathematics, half precision, and Python's rules for integer division. */
#ifndef TL_LOOP_H
#define TL_LOOP_H
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
