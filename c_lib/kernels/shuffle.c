/* Shuffling by computation: a keyed permutation of the next power of two, gone through until it meets one of the
 * things. */
#include "tl_fit.h"

/* The generator of a network's own random numbers (golden/random_numbers.py). */
static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

void tl_shuffle_begin(tl_shuffle *order, uint32_t count, uint32_t seed, uint32_t epoch)
{
    const uint32_t key = mix(epoch * 0x9e3779b9u) + mix(seed + 1);
    int bits = 0;
    while (bits < 32 && (count - 1) >> bits)
        bits++;
    order->count = count;
    order->mask = bits < 32 ? (1u << bits) - 1 : 0xffffffffu;
    order->shift = (bits + 1) / 2;
    for (uint32_t i = 0; i < 2 * TL_SHUFFLE_ROUNDS; i++)
        order->keys[i] = mix(i ^ key);
}

uint32_t tl_shuffle_at(const tl_shuffle *order, uint32_t place)
{
    uint32_t x = place;
    do
        for (int i = 0; i < TL_SHUFFLE_ROUNDS; i++) {
            x = (x ^ order->keys[2 * i]) & order->mask;
            x = x * (order->keys[2 * i + 1] | 1) & order->mask;
            x ^= x >> order->shift;
        }
    while (x >= order->count);
    return x;
}
