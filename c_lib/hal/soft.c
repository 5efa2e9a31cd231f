/* What compilers call for floats where there is no float unit and no C library: the two functions of one rounding that
 * their own libraries lack. Sums, products and quotients are theirs. */
#if (defined(TL_HAL_SINGLE) && defined(__riscv_float_abi_soft)) || defined(TL_SOFT)
#include <stdint.h>

enum { HIDDEN = 1 << 23, INFINITE = 0x7f8 << 20, BELOW = 40 }; /* bits of a sum below those that a float keeps */

float fmaf(float x, float y, float z);
float sqrtf(float x);

typedef union {
    float value;
    uint32_t bits;
} word;

/* Of a finite number that is not zero: mantissa * 2^exponent, 24 bits of mantissa. */
typedef struct {
    uint32_t mantissa;
    int exponent;
} parts;

static uint32_t magnitude(word x)
{
    return x.bits & 0x7fffffffu;
}

static parts taken(word x)
{
    const uint32_t low = x.bits & (HIDDEN - 1), biased = magnitude(x) >> 23;
    if (biased)
        return (parts){low | HIDDEN, (int)biased - 150};
    const int missing = __builtin_clz(low) - 8;
    return (parts){low << missing, -149 - missing};
}

/* x / 2^by; a one at the end stands for all that falls off. */
static uint64_t moved_right(uint64_t x, int by)
{
    if (by <= 0)
        return x;
    return by > 63 ? x != 0 : x >> by | (x << (64 - by) != 0);
}

/* The float next to sum * 2^exponent, the even one of two. */
static float rounded(uint32_t sign, uint64_t sum, int exponent)
{
    const int empty = __builtin_clzll(sum);
    int biased = exponent - empty + 63 + 127;
    if (biased >= 255)
        return (word){.bits = sign | INFINITE}.value;
    sum <<= empty;
    if (biased < 1) {
        sum = moved_right(sum, 1 - biased);
        biased = 1;
    }
    const uint64_t half = (uint64_t)1 << (BELOW - 1), rest = sum & (2 * half - 1);
    uint32_t kept = (uint32_t)(sum >> BELOW);
    kept += rest > half || (rest == half && (kept & 1));
    return (word){.bits = sign | (((uint32_t)(biased - 1) << 23) + kept)}.value;
}

/* x * y + z, rounded once. */
float fmaf(float x, float y, float z)
{
    const word a = {x}, b = {y}, c = {z};
    if (magnitude(a) >= INFINITE || magnitude(b) >= INFINITE || !magnitude(a) || !magnitude(b))
        return x * y + z;
    if (magnitude(c) >= INFINITE)
        return z + z;
    if (!magnitude(c))
        return x * y;
    const parts p = taken(a), q = taken(b), r = taken(c);
    uint64_t product = (uint64_t)p.mantissa * q.mantissa << 14, term = (uint64_t)r.mantissa << 38;
    const int of_product = p.exponent + q.exponent - 14, of_term = r.exponent - 38;
    product = moved_right(product, of_term - of_product);
    term = moved_right(term, of_product - of_term);
    const int exponent = of_product > of_term ? of_product : of_term;
    const uint32_t sign = (a.bits ^ b.bits) & 1u << 31, other = c.bits & 1u << 31;
    if (sign == other)
        return rounded(sign, product + term, exponent);
    if (product == term)
        return 0;
    return product > term ? rounded(sign, product - term, exponent) : rounded(other, term - product, exponent);
}

float sqrtf(float x)
{
    const word a = {x};
    if (!magnitude(a) || a.bits == INFINITE)
        return x;
    if (a.bits > INFINITE)
        return (word){.bits = INFINITE | 1 << 22}.value;
    const parts p = taken(a);
    const int odd = p.exponent & 1, exponent = (p.exponent + odd - 26) / 2;
    uint64_t rest = (uint64_t)p.mantissa << (26 - odd), root = 0;
    for (uint64_t bit = (uint64_t)1 << 48; bit; bit >>= 2) {
        const int fits = rest >= root + bit;
        rest -= fits ? root + bit : 0;
        root = (root >> 1) + (fits ? bit : 0);
    }
    return rounded(0, root << 1 | (rest != 0), exponent - 1);
}
#endif
