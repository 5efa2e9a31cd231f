/* A program's own judgement, in whole numbers: controllers without a float unit judge, too. */
#include "tl_check.h"
#include "tl_hal.h"
#include "tl_math.h"

static uint32_t sign_bits(uint32_t i)
{
    uint32_t h = (i ^ (i >> 15)) * 2654435769u;
    h = (h ^ (h >> 13)) * 1274126177u;
    return h ^ (h >> 16);
}

/* x * 2^exponent without what is behind the point; 0 where that is no int32_t. */
static int fixed_point(float x, int exponent, int32_t *fixed)
{
    const uint32_t bits = tl_bits(x);
    const int power = (int)(bits >> 23 & 255u), shift = (power ? power : 1) - 150 + exponent;
    const uint32_t mantissa = (bits & 0x7fffffu) | (power ? 0x800000u : 0u);
    uint32_t magnitude = shift > -24 && shift < 0 ? mantissa >> -shift : 0;
    if (power == 255 || (shift > 7 && mantissa))
        return 0;
    if (shift >= 0 && mantissa)
        magnitude = mantissa << shift;
    *fixed = bits >> 31 ? -(int32_t)magnitude : (int32_t)magnitude;
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
static int add(int64_t *sums, const float *data, size_t count, size_t first, int exponent)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = sign_bits((uint32_t)(first + i));
        int32_t fixed;
        if (!fixed_point(data[i], exponent, &fixed))
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

int tl_agrees(const float *data, size_t count, const tl_sketch *reference)
{
    int64_t sums[TL_SUMS] = {0};
    if (!tl_is_judged(reference))
        return 1;
    return add(sums, data, count, 0, reference->exponent) && near(sums, reference);
}

#if defined(TL_FAR)
enum { PIECE = 16 }; /* elements read at a time of what lies behind L2 */
static float piece[PIECE];

int tl_agrees_far(tl_far at, size_t count, const tl_sketch *reference)
{
    int64_t sums[TL_SUMS] = {0};
    if (!tl_is_judged(reference))
        return 1;
    for (size_t done = 0; done < count; done += PIECE) {
        const size_t some = count - done < PIECE ? count - done : PIECE;
        tl_far_read(piece, at + (tl_far)(done * sizeof(float)), some * sizeof(float));
        if (!add(sums, piece, some, done, reference->exponent))
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
