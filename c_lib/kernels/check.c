/* A program's own judgement, in whole numbers: controllers without a float unit judge, too. */
#include "tl_check.h"
#include "tl_hal.h"
#include "tl_half.h"
#include "tl_math.h"

static uint32_t sign_bits(uint32_t i)
{
    uint32_t h = (i ^ (i >> 15)) * 2654435769u;
    h = (h ^ (h >> 13)) * 1274126177u;
    return h ^ (h >> 16);
}

/* A number, mantissa * 2^power. */
typedef struct {
    uint32_t mantissa; /* below 2^24 */
    int power, negative, finite;
} number;

static number of_float(float x)
{
    const uint32_t bits = tl_bits(x), power = bits >> 23 & 255u;
    return (number){(bits & 0x7fffffu) | (power ? 0x800000u : 0u), (power ? (int)power : 1) - 150, (int)(bits >> 31),
                    power < 255};
}

#ifndef TL_HALF_DIGITS
#define TL_HALF_DIGITS 10 /* of an IEEE half, behind the point */
#endif

static number of_half(tl_half x)
{
    const uint32_t one = 1u << TL_HALF_DIGITS, most = 0x7fffu >> TL_HALF_DIGITS, power = x >> TL_HALF_DIGITS & most;
    return (number){(x & (one - 1)) | (power ? one : 0u), (power ? (int)power : 1) - (int)most / 2 - TL_HALF_DIGITS,
                    x >> 15, power < most};
}

/* x * 2^exponent without what is behind the point; 0 where that is no int32_t. */
static int fixed_point(number x, int exponent, int32_t *fixed)
{
    const int shift = x.power + exponent;
    uint32_t magnitude = shift > -24 && shift < 0 ? x.mantissa >> -shift : 0;
    if (!x.finite || (x.mantissa && (shift > 30 || (shift > 0 && x.mantissa >> (31 - shift)))))
        return 0;
    if (shift >= 0 && x.mantissa)
        magnitude = x.mantissa << shift;
    *fixed = x.negative ? -(int32_t)magnitude : (int32_t)magnitude;
    return 1;
}

/* Is the sum of squares at most `limit`? Both lose so many bits that 64 are enough. */
static int within(const int64_t *apart, float limit)
{
    const uint32_t bits = tl_bits(limit);
    const int power = (int)(bits >> 23), length = power - 126, lost = length > 57 ? (length - 56) / 2 : 0;
    const int shift = power - 150 - 2 * lost;
    const uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    uint64_t squares = 0, most = shift >= 0 ? mantissa << shift : 0;
    if (shift < 0 && shift > -24)
        most = mantissa >> -shift;
    for (int s = 0; s < TL_SUMS; s++) {
        const uint64_t one = (uint64_t)(apart[s] < 0 ? -apart[s] : apart[s]) >> lost;
        if (one >> 30)
            return 0;
        squares += one * one;
    }
    return squares <= most;
}

int tl_is_judged(const tl_sketch *reference)
{
    return !(tl_bits(reference->limit) >> 31);
}

/* Elements from number `first` on; 0, if one is out of range. */
static int add(int64_t *sums, const void *data, size_t count, size_t first, size_t size, int exponent)
{
    const float *floats = data;
    const tl_half *halves = data;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = sign_bits((uint32_t)(first + i));
        int32_t fixed;
        if (!fixed_point(size == sizeof(tl_half) ? of_half(halves[i]) : of_float(floats[i]), exponent, &fixed))
            return 0;
        for (int s = 0; s < TL_SUMS; s++)
            sums[s] += bits >> s & 1 ? -(int64_t)fixed : fixed;
    }
    return 1;
}

static int near(int64_t *sums, const tl_sketch *reference)
{
    for (int s = 0; s < TL_SUMS; s++)
        sums[s] -= reference->sums[s];
    return within(sums, reference->limit);
}

int tl_agrees(const void *data, size_t bytes, size_t size, const tl_sketch *reference)
{
    int64_t sums[TL_SUMS] = {0};
    if (!tl_is_judged(reference))
        return 1;
    return add(sums, data, bytes / size, 0, size, reference->exponent) && near(sums, reference);
}

#if defined(TL_FAR)
enum { PIECE = 16 }; /* words read at a time of what lies behind L2 */
static float piece[PIECE];

int tl_agrees_far(tl_far at, size_t bytes, size_t size, const tl_sketch *reference)
{
    int64_t sums[TL_SUMS] = {0};
    if (!tl_is_judged(reference))
        return 1;
    for (size_t done = 0; done < bytes; done += sizeof piece) {
        const size_t some = bytes - done < sizeof piece ? bytes - done : sizeof piece;
        tl_far_read(piece, at + (tl_far)done, some);
        if (!add(sums, piece, some / size, done / size, size, reference->exponent))
            return 0;
    }
    return near(sums, reference);
}

void tl_record_far(tl_far at, size_t bytes)
{
    while (bytes) {
        const size_t some = bytes < sizeof piece ? bytes : sizeof piece;
        tl_far_read(piece, at, some);
        tl_record(piece, some);
        at += (tl_far)some;
        bytes -= some;
    }
}
#endif
