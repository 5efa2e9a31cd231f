/* What the programs of floats that test_xpulp.py runs here and on Spike have in common: operands, and a record. */
#ifndef FLOATS_H
#define FLOATS_H
#include "tl_hal.h"

enum { CORES = 8, STACK = 1536, ELEMENTS = 2100, RESULTS = 1200, SCRATCH = 26624 };

typedef struct {
    uint8_t stacks[CORES * STACK] __attribute__((aligned(16)));
    float a[ELEMENTS], b[ELEMENTS], c[RESULTS], init[RESULTS];
    uint32_t scratch[SCRATCH / 4];
} l1_data;
TL_L1 static l1_data l1;
volatile int net_position;

/* Of all signs and many sizes; some are zero. */
static void fill(float *to, int count, uint32_t state)
{
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const float size = (float)(1u << (state >> 28)) * 0.01f;
        to[i] = (state >> 8 & 15) == 0 ? -0.0f : ((float)(state >> 8 & 0xffff) - 32768.0f) * size;
    }
}

static void fill_all(void)
{
    fill(l1.a, ELEMENTS, 1), fill(l1.b, ELEMENTS, 2), fill(l1.c, RESULTS, 3), fill(l1.init, RESULTS, 4);
}

static void run_as_it_is(tl_fn kernel, const void *argument)
{
    tl_cluster_run(CORES, kernel, (void *)(uintptr_t)argument, l1.stacks, STACK);
    tl_record(l1.c, sizeof l1.c);
}

static void run(tl_fn kernel, const void *argument)
{
    fill_all();
    run_as_it_is(kernel, argument);
}
#endif
