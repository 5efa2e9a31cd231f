/* Compares tl_divf and tl_sqrtf, through multiplications, with the instructions, bit for bit.
 *
 *   gcc -std=gnu99 -O2 -ffp-contract=off -fno-math-errno -mfma -Ic_lib/include tests/c/divide_exhaustive.c -o divide
 *   ./divide STRIDE       every STRIDE-th significand; 1 for all: the proof of docs/math.md
 *
 * Each line of the output: what, how many cases, how many differ; first the largest error of a reciprocal in 2^-24.
 */
#define TL_SHARED_DIVIDER
#include "tl_divide.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 7 };

typedef struct {
    uint64_t cases, wrong;
} count_t;

static const float SPECIALS[] = {0.0f,   1e-45f,     1.1754942e-38f, 1.17549435e-38f, 2.4e-38f,   1e-30f,
                                 7e-12f, 7.3e-12f,   0.5f,           0.99999994f,     1.0f,       1.0000001f,
                                 1.5f,   1.9999999f, 3.0f,           8388607.5f,      8388608.0f, 1e28f,
                                 4e28f,  1.7e38f,    3.40282347e38f, INFINITY,        NAN};
enum { SPECIALS_COUNT = sizeof SPECIALS / sizeof *SPECIALS };

static void compare(count_t *count, float got, float want)
{
    count->cases++;
    count->wrong += got != got ? want == want : tl_bits(got) != tl_bits(want);
}

static void divide(count_t *count, float a, float b)
{
    volatile float by = b;
    compare(count, tl_divf(a, b), a / by);
}

static void root(count_t *count, float x)
{
    volatile float of = x;
    compare(count, tl_sqrtf(x), __builtin_sqrtf(of));
}

static void print(const char *what, count_t count)
{
    printf("%s %llu %llu\n", what, (unsigned long long)count.cases, (unsigned long long)count.wrong);
}

static uint32_t next_random(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

/* x / 2^times modulo the odd m. */
static uint64_t halved(uint64_t x, uint32_t m, int times)
{
    for (; times; times--)
        x = (x & 1 ? x + m : x) >> 1;
    return x;
}

/* All quotients by significand b that lie within MOST / 2b of the middle between two floats, in distances of floats:
 * with b = 2^t odd and a 2^(shift + 1) = b + j modulo 2b, j is a multiple of 2^t, and the multiple is odd. */
static void hard_quotients(count_t *count, uint32_t b)
{
    int t = __builtin_ctz(b);
    uint32_t odd = b >> t;
    for (int shift = 23; shift <= 24; shift++)
        for (int j = -(MOST >> t); j <= MOST >> t; j++) {
            if (!(j & 1))
                continue;
            uint64_t half = (uint64_t)(((int64_t)odd + j) / 2 + odd) % odd, a = halved(half, odd, shift - t);
            for (a += a < 1u << 23 ? ((1u << 23) - a + odd - 1) / odd * odd : 0; a < 1u << 24; a += odd)
                if ((shift == 23) == (a >= b))
                    divide(count, (float)a * 0x1p-23f, (float)b * 0x1p-23f);
        }
}

int main(int argc, char **argv)
{
    uint32_t stride = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 509;
    count_t hard = {0, 0}, any = {0, 0}, special = {0, 0}, roots = {0, 0}, all_roots = {0, 0};
    double error = 0.0;
    for (uint32_t b = (1u << 24) - 1; b >= 1u << 23; b -= stride) {
        error = fmax(error, fabs((double)tl_inverse_((float)b * 0x1p-23f) * b * 0x1p-23 - 1.0) * 0x1p24);
        if (b & 7)
            hard_quotients(&hard, b);
    }
    for (uint64_t i = 0; i < (UINT64_C(1) << 30) / stride; i++) {
        uint32_t a = next_random(), b = next_random(); /* of any size, then of the same size */
        divide(&any, tl_from_bits(a), tl_from_bits(b));
        divide(&any, tl_from_bits(a), tl_from_bits((b & 0x807fffffu) | (a & 0x7f800000u)));
    }
    for (uint32_t i = 0; i < 65536; i++) /* each pair of exponents */
        for (int k = 0; k < 4; k++) {
            uint32_t a = next_random() & (k & 1 ? 0x80000000u : 0x807fffffu),
                     b = next_random() & (k & 2 ? 0x80000000u : 0x807fffffu);
            divide(&special, tl_from_bits(a | (i >> 8) << 23), tl_from_bits(b | (i & 255u) << 23));
        }
    for (int i = 0; i < 4 * SPECIALS_COUNT * SPECIALS_COUNT; i++) {
        float a = SPECIALS[i / 4 % SPECIALS_COUNT], b = SPECIALS[i / 4 / SPECIALS_COUNT];
        divide(&special, i & 1 ? -a : a, i & 2 ? -b : b);
    }
    for (uint32_t bits = 0x3f800000u; bits < 0x40800000u; bits += stride) /* two exponents: all significands */
        root(&roots, tl_from_bits(bits));
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += stride)
        root(&all_roots, tl_from_bits((uint32_t)bits));
    for (int i = 0; i < SPECIALS_COUNT; i++) {
        root(&all_roots, SPECIALS[i]);
        root(&all_roots, -SPECIALS[i]);
    }
    printf("reciprocal %.6f 0\n", error);
    print("hard", hard);
    print("any", any);
    print("special", special);
    print("roots", roots);
    print("all_roots", all_roots);
    return 0;
}
