/* A program's own judgement. */
#include "tl_check.h"
#include "tl_math.h"

static uint32_t sign_bits(uint32_t i)
{
    uint32_t h = (i ^ (i >> 15)) * 2654435769u;
    h = (h ^ (h >> 13)) * 1274126177u;
    return h ^ (h >> 16);
}

/* 2^exponent, in two factors: one alone may leave the range of floats. */
static float scaled(float x, int exponent)
{
    const int half = exponent / 2;
    return x * tl_from_bits((uint32_t)(half + 127) << 23) * tl_from_bits((uint32_t)(exponent - half + 127) << 23);
}

/* Near enough, and without the compiler's library. */
static float as_float(int64_t x)
{
    return (float)(int32_t)(x >> 32) * 4294967296.0f + (float)(uint32_t)x;
}

int tl_agrees(const float *data, size_t count, const tl_sketch *reference)
{
    int64_t sums[TL_SUMS] = {0};
    float squares = 0.0f;
    if (reference->limit < 0.0f)
        return 1;
    for (size_t i = 0; i < count; i++) {
        const float x = scaled(data[i], reference->exponent);
        const uint32_t bits = sign_bits((uint32_t)i);
        if (!(x > -2147483520.0f && x < 2147483520.0f))
            return 0;
        const int32_t fixed = (int32_t)x;
        for (int s = 0; s < TL_SUMS; s++)
            sums[s] += bits >> s & 1 ? -(int64_t)fixed : fixed;
    }
    for (int s = 0; s < TL_SUMS; s++) {
        const float apart = as_float(sums[s] - reference->sums[s]);
        squares += apart * apart;
    }
    return squares <= reference->limit;
}
