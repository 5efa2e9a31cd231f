/* Emulated RISC-V back end (no operating system): a controller, eight cores, two memories with walls.
 *
 * Waiting cores sleep and are woken by software interrupts. Physical memory protection, the same on every hart and
 * locked, lets through what the linker placed and nothing else; any other access ends the run with a report
 * (rv32_faults.c). A transfer is carried out when it is awaited: code that uses its data too early computes something
 * else here than on the host. Two simulators run it, each through a file of its own: rv32_qemu.c and rv32_spike.c.
 */
#if defined(TL_HAL_RV32)
#include "rv32_machine.h"

enum { PAINT = 0x5aa5c33c }; /* fills unused stacks */

void tl_rv32_call_on(tl_fn fn, void *arg, void *stack_top);
int main(void);

volatile int tl_rv32_team = 1;
static struct {
    tl_fn fn;
    void *arg;
    char *stacks;
    size_t stack_bytes;
} job;
static volatile uint32_t started[EMULATED_CORES],
    finished[EMULATED_CORES]; /* one writer a word: no atomic instructions needed */
static volatile uint32_t arrived[EMULATED_CORES], released;
static size_t deepest_stack, stack_size;

void tl_exit(int code)
{
    tl_rv32_close_record();
    if (stack_size) {
        tl_puts("STACK ");
        tl_rv32_put_number(deepest_stack);
        tl_puts(" of ");
        tl_rv32_put_number(stack_size);
        tl_puts(" bytes\n");
    }
    tl_rv32_stop(code);
}

/* ---- the team ---- */

static void wake(int hart)
{
    FENCE();
    WAKE[hart] = 1;
}

/* Sleep until woken. The caller checks its condition before and after: a wake-up in between is not lost, it ends the
 * sleep. */
static void sleep(int hart)
{
    __asm__ volatile("wfi" ::: "memory");
    WAKE[hart] = 0;
    (void)WAKE[hart];
    FENCE();
}

static void gather(int core, int team)
{
    const uint32_t round = released + 1;
    if (core) {
        arrived[core] = round;
        wake(1);
        while (released != round)
            sleep(core + 1);
        return;
    }
    for (int other = 1; other < team; other++)
        while (arrived[other] != round)
            sleep(1);
    MARK_PHASE;
    released = round;
    for (int other = 1; other < team; other++)
        wake(other + 1);
}

void tl_rv32_barrier(void)
{
    FENCE();
    gather(tl_core_id(), tl_rv32_team);
    FENCE();
}

static void run_job(void *unused)
{
    (void)unused;
    MARK_RUN;
    job.fn(job.arg);
    MARK_END;
}

__attribute__((noreturn, used)) void tl_rv32_core(int core)
{
    uint32_t seen = 0;
    tl_rv32_raise_walls();
    while (core >= EMULATED_CORES)
        __asm__ volatile("wfi");
    for (;;) {
        while (started[core] == seen)
            sleep(core + 1);
        seen++;
        if (job.stack_bytes)
            tl_rv32_call_on(run_job, 0, job.stacks + (size_t)(core + 1) * job.stack_bytes);
        else
            run_job(0);
        FENCE();
        finished[core] = seen;
        wake(0);
    }
}

static void paint_stacks(int cores)
{
    uint32_t *word = (uint32_t *)job.stacks, *end = word + (size_t)cores * job.stack_bytes / 4;
    while (word < end)
        *word++ = PAINT;
}

/* How deep did the stacks get? A stack without a painted word left has most likely run over into its neighbour. */
static void measure_stacks(int cores)
{
    for (int core = 0; core < cores; core++) {
        const uint32_t *word = (const uint32_t *)(job.stacks + (size_t)core * job.stack_bytes);
        size_t free = 0;
        while (free < job.stack_bytes && word[free / 4] == PAINT)
            free += 4;
        if (job.stack_bytes && free == 0)
            tl_rv32_fail("stack overflow: a core used up its whole stack");
        if (job.stack_bytes - free > deepest_stack)
            deepest_stack = job.stack_bytes - free;
    }
}

void tl_cluster_run(int cores, tl_fn fn, void *arg, void *stacks, size_t stack_bytes)
{
    if (cores < 1 || cores > EMULATED_CORES)
        tl_rv32_fail("this machine has 1 to 8 cores");
    if (stack_bytes % 16 || (uintptr_t)stacks % 16)
        tl_rv32_fail("stacks must be aligned to 16 bytes");
    job.fn = fn;
    job.arg = arg;
    job.stacks = stacks;
    job.stack_bytes = stack_size = stacks ? stack_bytes : 0; /* none given: those of the boot code serve */
    paint_stacks(cores);
    tl_rv32_team = cores;
    for (int core = 0; core < cores; core++) {
        started[core]++;
        wake(core + 1);
    }
    for (int core = 0; core < cores; core++)
        while (finished[core] != started[core])
            sleep(0);
    FENCE();
    MARK_PHASE;
    tl_rv32_team = 1;
    measure_stacks(cores);
}

/* ---- transfers ---- */

static void check_range(const char *from, size_t bytes, const char *start, const char *end, const char *what)
{
    if (from < start || from > end || bytes > (size_t)(end - from))
        tl_rv32_fail(what);
}

static void check_transfer(const char *l1, const char *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    if (!row_bytes || !rows)
        return;
    check_range(l1, row_bytes * rows, tl_rv32_l1, tl_rv32_l1_end, "a transfer leaves the planned part of L1");
    check_range(l2, (rows - 1) * pitch + row_bytes, tl_rv32_l2, tl_rv32_l2_end,
                "a transfer leaves the planned part of L2");
}

void tl_dma_in(tl_dma_t *transfer, void *l1, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    MARK_PAUSE;
    check_transfer(l1, l2, row_bytes, rows, pitch);
    *transfer = (tl_dma_t){l1, l2, row_bytes, rows, row_bytes, pitch};
    MARK_RESUME;
}

void tl_dma_out(tl_dma_t *transfer, void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch)
{
    MARK_PAUSE;
    check_transfer(l1, l2, row_bytes, rows, pitch);
    *transfer = (tl_dma_t){l2, l1, row_bytes, rows, pitch, row_bytes};
    MARK_RESUME;
}

void tl_dma_wait(tl_dma_t *transfer)
{
    MARK_PAUSE;
    for (; transfer->rows; transfer->rows--) {
        __builtin_memcpy(transfer->to, transfer->from, transfer->row_bytes);
        transfer->to += transfer->to_pitch;
        transfer->from += transfer->from_pitch;
    }
    MARK_RESUME;
}

#if defined(TL_FAR)
extern tl_far_bytes tl_far_memory;

static char *far_place(tl_far at, size_t bytes)
{
    if (at > TL_FAR || bytes > TL_FAR - at)
        tl_rv32_fail("a copy leaves the planned part of the memory behind L2");
    return (char *)tl_far_memory + at;
}

static void begin_copy(tl_far_t *job, tl_far_t copy)
{
    MARK_PAUSE;
    check_range(copy.near, copy.row_bytes * copy.rows, tl_rv32_l2, tl_rv32_l2_end,
                "a copy leaves the planned part of L2");
    *job = copy;
    MARK_RESUME;
}

void tl_far_in(tl_far_t *job, void *l2, tl_far from, size_t row_bytes, size_t rows, size_t pitch)
{
    begin_copy(job, (tl_far_t){l2, from, row_bytes, rows, pitch, 1});
}

void tl_far_out(tl_far_t *job, tl_far to, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    begin_copy(job, (tl_far_t){(char *)(uintptr_t)l2, to, row_bytes, rows, pitch, 0});
}

void tl_far_wait(tl_far_t *job)
{
    MARK_PAUSE;
    for (; job->rows; job->rows--) {
        if (job->inward)
            tl_far_read(job->near, job->far, job->row_bytes);
        else
            tl_far_write(job->far, job->near, job->row_bytes);
        job->near += job->row_bytes;
        job->far += job->pitch;
    }
    MARK_RESUME;
}

void tl_far_read(void *to, tl_far from, size_t bytes)
{
    const char *place = far_place(from, bytes);
    tl_rv32_door(1);
    __builtin_memcpy(to, place, bytes);
    tl_rv32_door(0);
}

void tl_far_write(tl_far to, const void *from, size_t bytes)
{
    char *place = far_place(to, bytes);
    tl_rv32_door(1);
    __builtin_memcpy(place, from, bytes);
    tl_rv32_door(0);
}
#endif

__attribute__((noreturn, used)) void tl_rv32_controller(void)
{
    tl_rv32_raise_walls();
    const int code = main();
    tl_exit(code);
    for (;;)
        continue;
}
#endif
