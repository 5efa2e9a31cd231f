/* What tests/e2e/test_xpulp.py runs on the host, in portable C, and on Spike, with PULP's instructions: rows of
 * exponentials and of GELUs with their slopes. */
#include "tl_curves.h"
#include "tl_hal.h"

enum { CORES = 8, STACK = 1216, MOST = 40 };

typedef struct {
    uint8_t stacks[CORES * STACK] __attribute__((aligned(16)));
    float x[MOST + 1], y[2 * MOST];
    tl_half hx[MOST + 1], hy[2 * MOST];
} l1_data;
TL_L1 static l1_data l1;
volatile int net_position;

/* Mostly near zero. Others are next to each other, first or last: on the border, far from zero, infinite, no number. */
static void fill(int n)
{
    static const float far[] = {1.75f, -3.0f, 88.5f, -95.0f, -6e4f, __builtin_inff(), -__builtin_inff(), 6e-8f};
    uint32_t state = 1;
    for (int i = 0; i <= n; i++) {
        state = state * 1664525u + 1013904223u;
        l1.x[i] = i % 5 == n % 3 || i % 7 == 6 ? far[i % 8] : (float)((int32_t)state >> 8) * 0x1.bp-23f;
        l1.x[i] = i == 9 ? __builtin_nanf("") : l1.x[i];
        l1.hx[i] = tl_to_half(l1.x[i]);
    }
}

/* No numbers are alike. */
static void record_floats(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : 1e-30f;
    tl_record(x, n * (int)sizeof *x);
}

static void record_halves(tl_half *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = (x[i] & 0x7fff) > 0x7c00 ? 0x7e00 : x[i];
    tl_record(x, n * (int)sizeof *x);
}

/* Elsewhere, and onto the operand. */
static void floats(int n)
{
    fill(n);
    tl_gelu_row_f32(l1.y, l1.y + n, l1.x, n);
    record_floats(l1.y, 2 * n);
    tl_exp_row_f32(l1.y, l1.x, 0.7f, n);
    record_floats(l1.y, n);
    tl_exp_row_f32(l1.x, l1.x, -1.3f, n);
    record_floats(l1.x, n);
    tl_gelu_row_f32(l1.x, l1.y, l1.x, n);
    record_floats(l1.x, n), record_floats(l1.y, n);
}

static void halves(int n)
{
    fill(n);
    tl_gelu_row_f16(l1.hy, l1.hy + n, l1.hx, n);
    record_halves(l1.hy, 2 * n);
    tl_exp_row_f16(l1.hy, l1.hx, 0.7f, n);
    record_halves(l1.hy, n);
    tl_exp_row_f16(l1.hx, l1.hx, -1.3f, n);
    record_halves(l1.hx, n);
    tl_gelu_row_f16(l1.hx, l1.hy, l1.hx, n);
    record_halves(l1.hx, n), record_halves(l1.hy, n);
}

int main(void)
{
    tl_record_open();
    for (int n = 0; n < MOST; n++)
        floats(n), halves(n);
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
