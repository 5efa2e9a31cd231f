/* Measures the functions of tl_math.h against double precision.
 *
 *   math_exhaustive STRIDE[:LOW:HIGH] [NAME...]   one line per function: name, maximum error in ulp, where, faults
 *
 * Every STRIDEth float with LOW <= |x| < HIGH is tried (1: all 2^32), or 2^32 / STRIDE random pairs, and always the
 * special values. An ulp is the distance of floats around the true value; infinity counts as 2^128. A fault is a NaN,
 * an infinity or a sign of zero that the reference does not have. Functions computed by reflection for negative x
 * cancel around their zeros there: for these x the distance of floats around the reflected term, or around 1, counts if
 * it is larger. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tl_math.h"

typedef struct {
    const char *name;
    float (*ours)(float);
    double (*reference)(double);
    double (*reflected)(double);
} entry_t;

typedef struct {
    const char *name;
    float (*ours)(float, float);
    double (*reference)(double, double);
} pair_entry_t;

typedef struct {
    double error;
    float where, second;
    unsigned faults;
} result_t;

/* Bits of positive floats. */
typedef struct {
    uint64_t stride, first, end;
} range_t;

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}

/* Newton on erf, or on erfc where it is the more accurate. */
static double erfinv(double x)
{
    if (!(fabs(x) < 1.0))
        return fabs(x) == 1.0 ? copysign(INFINITY, x) : NAN;
    double size = fabs(x), y = tl_erfinvf((float)size);
    for (int i = 0; i < 3; i++) {
        double miss = size < 0.5 ? erf(y) - size : 1.0 - size - erfc(y);
        y -= miss * exp(y * y) * 0.88622692545275801365;
    }
    return copysign(y, x);
}

/* Recurrence up to 10, then the asymptotic series; reflection for negative numbers. */
static double digamma(double x)
{
    const double pi = 3.14159265358979323846;
    double sum = 0.0;
    if (x == 0.0)
        return copysign(INFINITY, -x);
    if (x < 0.0) {
        double r = x - rint(x);
        return r == 0.0 || isinf(x) ? NAN : digamma(1.0 - x) - pi / tan(pi * r);
    }
    for (; x < 10.0; x += 1.0)
        sum -= 1.0 / x;
    double u = 1.0 / (x * x);
    double tail =
        u * (1.0 / 12 - u * (1.0 / 120 - u * (1.0 / 252 - u * (1.0 / 240 - u * (1.0 / 132 - u * 691.0 / 32760)))));
    return sum + log(x) - 0.5 / x - tail;
}

static double lgamma_reflected(double x)
{
    return x < 0.0 ? fmax(1.0, fabs(lgamma(-x))) : 0.0;
}
static double digamma_reflected(double x)
{
    return x < 0.0 ? fmax(1.0, fabs(digamma(1.0 - x))) : 0.0;
}

#define ENTRY(name, reference) {#name, tl_##name##f, reference, NULL}
static const entry_t ENTRIES[] = {
    ENTRY(exp, exp),
    ENTRY(expm1, expm1),
    ENTRY(log, log),
    ENTRY(log1p, log1p),
    ENTRY(rsqrt, rsqrt),
    ENTRY(sqrt, sqrt),
    ENTRY(sigmoid, sigmoid),
    ENTRY(softplus, softplus),
    ENTRY(tanh, tanh),
    ENTRY(erf, erf),
    ENTRY(floor, floor),
    ENTRY(ceil, ceil),
    ENTRY(trunc, trunc),
    ENTRY(round, rint),
    ENTRY(exp2, exp2),
    ENTRY(log2, log2),
    ENTRY(log10, log10),
    ENTRY(sinh, sinh),
    ENTRY(cosh, cosh),
    ENTRY(sin, sin),
    ENTRY(cos, cos),
    ENTRY(tan, tan),
    ENTRY(asin, asin),
    ENTRY(acos, acos),
    ENTRY(atan, atan),
    ENTRY(erfc, erfc),
    ENTRY(erfinv, erfinv),
    {"lgamma", tl_lgammaf, lgamma, lgamma_reflected},
    {"digamma", tl_digammaf, digamma, digamma_reflected},
};
enum { ENTRIES_COUNT = sizeof ENTRIES / sizeof *ENTRIES };

static const pair_entry_t PAIR_ENTRIES[] = {
    {"pow", tl_powf, pow},
    {"atan2", tl_atan2f, atan2},
    {"fmod", tl_fmodf, fmod},
};
enum { PAIR_ENTRIES_COUNT = sizeof PAIR_ENTRIES / sizeof *PAIR_ENTRIES };

static const float SPECIALS[] = {
    0.0f,     1e-45f, 1.1754942e-38f, 1.17549435e-38f, 0.5f,  0.99999994f, 1.0f,  1.0000001f, 1.5f,   2.0f,
    2.5f,     3.0f,   8388607.5f,     8388608.0f,      87.0f, 88.72284f,   88.8f, 103.972f,   104.0f, 3.40282347e38f,
    INFINITY, NAN};
enum { SPECIALS_COUNT = sizeof SPECIALS / sizeof *SPECIALS };

static double ulp_of(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

/* The error in ulp, of `least` if that is larger, or -1 for a fault. */
static double error_of(float got, double want, double least)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0.0 : -1.0;
    if (want == 0.0)
        return got == 0.0f && !signbit(got) == !signbit(want) ? 0.0 : -1.0;
    double limit = 0x1p128, value = isinf(got) ? copysign(limit, got) : got;
    if (fabs(want) >= limit)
        return value == copysign(limit, want) ? 0.0 : -1.0;
    return fabs(value - want) / ulp_of(fmax(fabs(want), least));
}

static void note(result_t *result, double error, float x, float y)
{
    if (error < 0.0)
        result->faults++;
    if (error > result->error || (error < 0.0 && result->faults == 1)) {
        result->error = fmax(error, result->error);
        result->where = x;
        result->second = y;
    }
}

static void try_one(const entry_t *entry, float x, result_t *result)
{
    double least = entry->reflected && isfinite(x) ? entry->reflected(x) : 0.0;
    note(result, error_of(entry->ours(x), entry->reference(x), least), x, 0.0f);
}

static result_t measure(const entry_t *entry, const range_t *range)
{
    result_t result = {0.0, 0.0f, 0.0f, 0};
    for (uint64_t bits = range->first; bits < range->end; bits += range->stride) {
        try_one(entry, tl_from_bits((uint32_t)bits), &result);
        try_one(entry, -tl_from_bits((uint32_t)bits), &result);
    }
    for (int i = 0; i < SPECIALS_COUNT; i++) {
        try_one(entry, SPECIALS[i], &result);
        try_one(entry, -SPECIALS[i], &result);
    }
    return result;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

/* A float of either sign whose exponent lies in [low, low + 2^width). */
static float random_float(uint64_t *state, int low, int width)
{
    uint32_t exponent = next_random(state) >> (32 - width), bits = next_random(state);
    return tl_from_bits((bits & 0x807fffffu) | (exponent + (uint32_t)(127 + low)) << 23);
}

static result_t measure_pairs(const pair_entry_t *entry, uint64_t count)
{
    result_t result = {0.0, 0.0f, 0.0f, 0};
    uint64_t state = 1;
    for (uint64_t i = 0; i < count; i++) {
        float x = tl_from_bits(next_random(&state)), y = tl_from_bits(next_random(&state));
        if (i % 3 == 1) { /* of moderate size */
            x = random_float(&state, -8, 4);
            y = random_float(&state, -8, 4);
        } else if (i % 3 == 2) { /* near 1, with a size that can go up to an overflowing power */
            x = 1.0f + random_float(&state, -24, 4);
            y = random_float(&state, -1, 5);
        }
        note(&result, error_of(entry->ours(x, y), entry->reference(x, y), 0.0), x, y);
    }
    for (int i = 0; i < 4 * SPECIALS_COUNT * SPECIALS_COUNT; i++) {
        float x = SPECIALS[i / 4 % SPECIALS_COUNT], y = SPECIALS[i / 4 / SPECIALS_COUNT];
        x = i & 1 ? -x : x;
        y = i & 2 ? -y : y;
        note(&result, error_of(entry->ours(x, y), entry->reference(x, y), 0.0), x, y);
    }
    return result;
}

static int wanted(const char *name, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], name))
            return 1;
    return argc <= 2;
}

static range_t parse(const char *text)
{
    range_t range = {1021, 0, UINT64_C(1) << 31};
    float low, high;
    if (sscanf(text, "%" SCNu64 ":%f:%f", &range.stride, &low, &high) == 3) {
        range.first = tl_bits(low);
        range.end = tl_bits(high);
    }
    return range;
}

int main(int argc, char **argv)
{
    range_t range = parse(argc > 1 ? argv[1] : "1021");
    for (int i = 0; i < ENTRIES_COUNT; i++) {
        if (!wanted(ENTRIES[i].name, argc, argv))
            continue;
        result_t result = measure(&ENTRIES[i], &range);
        printf("%s %.4f %.9g %u\n", ENTRIES[i].name, result.error, result.where, result.faults);
        fflush(stdout);
    }
    for (int i = 0; i < PAIR_ENTRIES_COUNT; i++) {
        const pair_entry_t *entry = &PAIR_ENTRIES[i];
        if (!wanted(entry->name, argc, argv))
            continue;
        result_t result = measure_pairs(entry, (UINT64_C(1) << 32) / range.stride);
        printf("%s %.4f (%.9g,%.9g) %u\n", entry->name, result.error, result.where, result.second, result.faults);
        fflush(stdout);
    }
    return 0;
}
