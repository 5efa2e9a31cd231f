/* What tests/e2e/test_rv32_hal.py runs on the host and on the emulated cluster: the same bits must come out.
 * TEAM cores; MISTAKE and BAD_ADDRESS plant a mistake. */
#include "tl_hal.h"
#include <string.h>

#ifndef STACK_BYTES
#define STACK_BYTES 1024
#endif
#ifndef TEAM
#define TEAM 8
#endif
#define ROWS 37
#define COLUMNS 29 /* floats; rows of the source are PITCH apart */
#define PITCH 31
#define ITEMS (ROWS * COLUMNS)

typedef struct {
    uint8_t stacks[16 * STACK_BYTES] __attribute__((aligned(16)));
    float x[ITEMS], y[ITEMS], partial[ROWS];
} l1_data;
typedef struct {
    float source[ROWS * PITCH], result[ROWS * PITCH];
} l2_data;
TL_L1 static l1_data l1;
TL_L2 static l2_data l2 = {.source = {[0] = 3.5f, [5] = -1.25f, [ROWS * PITCH - 3] = 7.0f}};
static const float scale[COLUMNS] = {[0] = 0.1f, [7] = -2.3f, [28] = 1e-3f};
volatile int net_position;

enum { NONE, DEEP_STACK, WIDE_TRANSFER, NO_WAIT, WRITE_CONSTANT };
#ifndef MISTAKE
#define MISTAKE NONE
#endif

static __attribute__((noinline)) void use_the_stack(void)
{
    volatile char deep[STACK_BYTES + 64];
    for (unsigned i = 0; i < sizeof deep; i++)
        deep[i] = 1;
}

static void make_mistake(void)
{
    tl_dma_t job;
#ifdef BAD_ADDRESS
    *(volatile int *)(uintptr_t)(BAD_ADDRESS) = 1;
#endif
    if (MISTAKE == DEEP_STACK)
        use_the_stack();
    if (MISTAKE == WIDE_TRANSFER)
        tl_dma_in(&job, l1.x, l2.source, 4, 2, sizeof l2);
    if (MISTAKE == WRITE_CONSTANT)
        *(volatile float *)(uintptr_t)&scale[3] = 1.0f;
    (void)job;
}

static void fetch(int lo, int hi)
{
    tl_dma_t job;
    if (lo == hi)
        return;
    tl_dma_in(&job, l1.x + lo * COLUMNS, l2.source + lo * PITCH, COLUMNS * 4, (size_t)(hi - lo), PITCH * 4);
    if (MISTAKE != NO_WAIT)
        tl_dma_wait(&job);
}

static void compute(int row)
{
    float sum = 0;
    for (int c = 0; c < COLUMNS; c++) {
        const float above = row ? l1.x[(row - 1) * COLUMNS + c] : 1.0f; /* another core's row: needs the barrier */
        l1.y[row * COLUMNS + c] = __builtin_fmaf(l1.x[row * COLUMNS + c], scale[c], above + (float)row);
        sum += l1.y[row * COLUMNS + c];
    }
    l1.partial[row] = sum;
}

static void on_core(void *arg)
{
    int lo, hi;
    const int id = tl_core_id();
    tl_split(ROWS, 1, &lo, &hi);
    fetch(lo, hi);
    tl_barrier();
    for (int row = lo; row < hi; row++)
        compute(row);
    tl_barrier();
    if (id == 0) {
        float total = 0;
        net_position++;
        for (int row = 0; row < ROWS; row++)
            total += l1.partial[row];
        *(float *)arg = total;
    }
    tl_barrier();
    if (id == TEAM - 1)
        make_mistake();
    if (hi > lo) {
        tl_dma_t job;
        tl_dma_out(&job, l2.result + lo * PITCH, l1.y + lo * COLUMNS, COLUMNS * 4, (size_t)(hi - lo), PITCH * 4);
        tl_dma_wait(&job);
    }
}

int main(void)
{
    float total = 0;
    const int listening = tl_record_open();
    for (int i = 0; i < ROWS * PITCH; i++)
        l2.source[i] += (float)(i % 101) * 0.37f;
    for (int run = 0; run < 3; run++) {
        tl_cluster_run(TEAM, on_core, &total, l1.stacks, STACK_BYTES);
        memcpy(l2.source, l2.result, sizeof l2.source);
        if (!listening)
            continue;
        tl_record(&total, sizeof total);
        tl_record(l2.result, sizeof l2.result);
    }
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
