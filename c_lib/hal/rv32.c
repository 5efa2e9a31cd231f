/* Emulated RISC-V back end (QEMU machine `virt`, no operating system): a controller, eight cores, two memories with
 * walls.
 *
 * Waiting cores sleep and are woken by software interrupts. Physical memory protection, the same on every hart and
 * locked, lets through what the linker placed and nothing else; any other access ends the run with a report. A transfer
 * is carried out when it is awaited: code that uses its data too early computes something else here than on the host.
 */
#if defined(TL_HAL_RV32)
#include "tl_hal.h"

enum { MOST_CORES = 8 };
enum { PAINT = 0x5aa5c33c }; /* fills unused stacks */
enum { SEMIHOST_OPEN = 1, SEMIHOST_CLOSE = 2, SEMIHOST_WRITE = 5, SEMIHOST_COMMAND_LINE = 0x15 };
enum { MODE_WRITE_BINARY = 5 };

#define WAKE ((volatile uint32_t *)0x02000000) /* one word a hart: its pending software interrupt */
#define UART ((volatile uint8_t *)0x10000000)
#define FINISHER ((volatile uint32_t *)0x00100000)
#define FENCE() __asm__ volatile("fence rw, rw" ::: "memory")
#define SET_CSR(name, value) __asm__ volatile("csrw " #name ", %0" ::"r"((uint32_t)(value)))

/* Instructions without effect that the counting plugin (rv32_counts.c) recognises. */
#define MARK(number) __asm__ volatile("slti x0, x0, " #number::: "memory")
#define MARK_RUN MARK(0x700)    /* this core works for the network from here */
#define MARK_END MARK(0x701)    /* and no longer */
#define MARK_PAUSE MARK(0x702)  /* the next instructions are the emulation's own */
#define MARK_RESUME MARK(0x703) /* end of a pause */
#define MARK_PHASE MARK(0x704)  /* all cores have met: the slowest one sets the pace */

extern char tl_rv32_constants_end[], tl_rv32_data_end[];
extern char tl_rv32_l1[], tl_rv32_l1_end[], tl_rv32_l2[], tl_rv32_l2_end[], _start[];
extern volatile int net_position __attribute__((weak));

void tl_rv32_call_on(tl_fn fn, void *arg, void *stack_top);
uint32_t tl_rv32_semihost(uint32_t operation, const void *block);
int main(void);

volatile int tl_rv32_team = 1;
static struct {
    tl_fn fn;
    void *arg;
    char *stacks;
    size_t stack_bytes;
} job;
static volatile uint32_t started[MOST_CORES],
    finished[MOST_CORES]; /* one writer a word: no atomic instructions needed */
static volatile uint32_t arrived[MOST_CORES], released;
static size_t deepest_stack, stack_size;
static int32_t record = -1;

/* ---- console and end ---- */

void tl_puts(const char *text)
{
    for (; *text; text++)
        UART[0] = (uint8_t)*text;
}

static void put_hex(uint32_t value)
{
    char text[11] = "0x";
    for (int i = 0; i < 8; i++)
        text[2 + i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
    text[10] = 0;
    tl_puts(text);
}

static void put_number(uint32_t value)
{
    char text[11];
    int at = 10;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    tl_puts(text + at);
}

static __attribute__((noreturn)) void stop(int code)
{
    *FINISHER = code ? (uint32_t)(code & 0xff) << 16 | 0x3333 : 0x5555;
    for (;;)
        __asm__ volatile("wfi");
}

static __attribute__((noreturn)) void fail(const char *what)
{
    tl_puts("FAULT: ");
    tl_puts(what);
    tl_puts("\n");
    stop(3);
}

void tl_exit(int code)
{
    const uint32_t handle[1] = {(uint32_t)record};
    if (record >= 0 && tl_rv32_semihost(SEMIHOST_CLOSE, handle))
        fail("closing the record");
    if (stack_size) {
        tl_puts("STACK ");
        put_number(deepest_stack);
        tl_puts(" of ");
        put_number(stack_size);
        tl_puts(" bytes\n");
    }
    stop(code);
}

/* ---- faults ---- */

static void put_place(uint32_t address)
{
    static const struct {
        const char *name, *start, *end;
    } levels[] = {{"L1", tl_rv32_l1, tl_rv32_l1_end}, {"L2", tl_rv32_l2, tl_rv32_l2_end}};
    for (int i = 0; i < 2; i++) {
        const uint32_t end = (uint32_t)levels[i].end;
        if (address < end || address - end > 0x1000000)
            continue;
        tl_puts(", ");
        put_number(address - end);
        tl_puts(" bytes past the last planned byte of ");
        tl_puts(levels[i].name);
    }
    if (address < (uint32_t)tl_rv32_constants_end && address >= (uint32_t)_start)
        tl_puts(", a constant");
}

__attribute__((noreturn, used)) void tl_rv32_trap(uint32_t cause, uint32_t pc, uint32_t address, uint32_t hart)
{
    tl_puts(cause == 5   ? "FAULT: load from "
            : cause == 7 ? "FAULT: store to "
            : cause == 1 ? "FAULT: execution of "
                         : "FAULT: exception at ");
    put_hex(address);
    put_place(address);
    tl_puts("; hart=");
    put_number(hart);
    tl_puts(" pc=");
    put_hex(pc);
    tl_puts(" cause=");
    put_number(cause);
    if (&net_position) {
        tl_puts(" net_position=");
        put_number((uint32_t)net_position);
    }
    tl_puts("\n");
    stop(4);
}

/* ---- memory protection ---- */

static uint32_t block_of(uint32_t base, uint32_t size) /* naturally aligned power of two */
{
    return base >> 2 | (size / 8 - 1);
}

enum { LOCK = 0x80, TOP_OF_RANGE = 0x08, BLOCK = 0x18, R = 1, W = 2, X = 4 };
#define RANGE(access) (LOCK | TOP_OF_RANGE | (access))
#define DEVICE (LOCK | BLOCK | R | W)
#define FOUR(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* The first entry that matches decides; the last one matches everything and allows nothing. */
static void raise_walls(void)
{
    SET_CSR(pmpaddr0, (uint32_t)_start >> 2);
    SET_CSR(pmpaddr1, (uint32_t)tl_rv32_constants_end >> 2);
    SET_CSR(pmpaddr2, (uint32_t)tl_rv32_data_end >> 2);
    SET_CSR(pmpaddr3, (uint32_t)tl_rv32_l1 >> 2);
    SET_CSR(pmpaddr4, (uint32_t)tl_rv32_l1_end >> 2);
    SET_CSR(pmpaddr5, (uint32_t)tl_rv32_l2 >> 2);
    SET_CSR(pmpaddr6, (uint32_t)tl_rv32_l2_end >> 2);
    SET_CSR(pmpaddr7, block_of((uint32_t)WAKE, 0x1000));
    SET_CSR(pmpaddr8, block_of((uint32_t)UART, 0x1000));
    SET_CSR(pmpaddr9, block_of((uint32_t)FINISHER, 0x1000));
    SET_CSR(pmpaddr10, 0xffffffff);
    SET_CSR(pmpcfg0, FOUR(0, RANGE(R | X), RANGE(R | W), 0));
    SET_CSR(pmpcfg1, FOUR(RANGE(R | W), 0, RANGE(R | W), DEVICE));
    SET_CSR(pmpcfg2, FOUR(DEVICE, DEVICE, LOCK | BLOCK, 0));
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
    MARK_PAUSE;
    FENCE();
    gather(tl_core_id(), tl_rv32_team);
    FENCE();
    MARK_RESUME;
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
    raise_walls();
    while (core >= MOST_CORES)
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
            fail("stack overflow: a core used up its whole stack");
        if (job.stack_bytes - free > deepest_stack)
            deepest_stack = job.stack_bytes - free;
    }
}

void tl_cluster_run(int cores, tl_fn fn, void *arg, void *stacks, size_t stack_bytes)
{
    if (cores < 1 || cores > MOST_CORES)
        fail("this machine has 1 to 8 cores");
    if (stack_bytes % 16 || (uintptr_t)stacks % 16)
        fail("stacks must be aligned to 16 bytes");
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
        fail(what);
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

/* ---- the record: a file of the machine that runs the emulator, named as the second word of the command line ---- */

int tl_record_open(void)
{
    static char line[4096];
    const uint32_t ask[2] = {(uint32_t)line, sizeof line};
    uint32_t length = 0;
    if (tl_rv32_semihost(SEMIHOST_COMMAND_LINE, ask))
        return 0;
    const char *name = line;
    while (*name && *name++ != ' ')
        continue;
    while (name[length])
        length++;
    if (!length)
        return 0;
    const uint32_t open[3] = {(uint32_t)name, MODE_WRITE_BINARY, length};
    record = (int32_t)tl_rv32_semihost(SEMIHOST_OPEN, open);
    if (record < 0)
        fail("opening the record");
    return 1;
}

void tl_record(const void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)record, (uint32_t)data, bytes};
    MARK_PAUSE;
    if (tl_rv32_semihost(SEMIHOST_WRITE, block))
        fail("writing the record");
    MARK_RESUME;
}

__attribute__((noreturn, used)) void tl_rv32_controller(void)
{
    raise_walls();
    const int code = main();
    tl_exit(code);
    for (;;)
        continue;
}

/* ---- what a compiler may call ---- */

__attribute__((used)) void *memcpy(void *to, const void *from, size_t bytes)
{
    char *d = to;
    const char *s = from;
    if (((uintptr_t)d | (uintptr_t)s) % 4 == 0)
        for (; bytes >= 4; bytes -= 4, d += 4, s += 4)
            *(uint32_t *)d = *(const uint32_t *)s;
    while (bytes--)
        *d++ = *s++;
    return to;
}

__attribute__((used)) void *memmove(void *to, const void *from, size_t bytes)
{
    char *d = to;
    const char *s = from;
    if (d <= s || d >= s + bytes)
        return memcpy(to, from, bytes);
    while (bytes--)
        d[bytes] = s[bytes];
    return to;
}

__attribute__((used)) void *memset(void *to, int byte, size_t bytes)
{
    char *d = to;
    while (bytes--)
        *d++ = (char)byte;
    return to;
}

__attribute__((used)) int memcmp(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    for (; bytes; bytes--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}
#endif
