/* Back end for one core without an operating system: one memory for tensors; code, constants and initial contents in
 * flash. Console, files and the end go through semihosting, which debuggers and QEMU's boards answer. What a core does
 * from reset to main is its own: single_cortexm.c, single_rv32.c. */
#if defined(TL_HAL_SINGLE)
#include "tl_hal.h"

uint32_t tl_single_semihost(uint32_t operation, const void *block);
void tl_single_fail(const char *what) __attribute__((noreturn));
void tl_single_main(void) __attribute__((noreturn));
extern uint32_t tl_single_data[], tl_single_data_end[];
extern const uint32_t tl_single_contents[];
int main(void);

static inline uint32_t semihost(uint32_t operation, const void *block)
{
    return tl_single_semihost(operation, block);
}
#include "semihosting.h"

/* ---- console, files, end ---- */

void tl_puts(const char *text)
{
    semihost(SEMIHOST_PUTS, text);
}

void tl_file_close(int file)
{
    const uint32_t block[1] = {(uint32_t)file};
    semihost(SEMIHOST_CLOSE, block);
}

static int record = -1;

void tl_exit(int code)
{
    const uint32_t block[2] = {SEMIHOST_STOPPED, (uint32_t)code};
    if (record >= 0)
        tl_file_close(record);
    semihost(SEMIHOST_EXIT, block);
    for (;;)
        continue;
}

void tl_single_fail(const char *what)
{
    tl_puts("FAULT: ");
    tl_puts(what);
    tl_puts("\n");
    tl_exit(3);
    for (;;)
        continue;
}

int tl_record_open(void)
{
    static char line[512];
    const char *name = record_named(line, sizeof line);
    if (!name)
        return 0;
    record = tl_file_open(name, 1);
    if (record < 0)
        tl_single_fail("opening the record");
    return 1;
}

void tl_record(const void *data, size_t bytes)
{
    if (tl_file_write(record, data, bytes))
        tl_single_fail("writing the record");
}

/* ---- the team of one ---- */

void tl_cluster_run(int cores, tl_fn fn, void *arg, void *stacks, size_t stack_bytes)
{
    (void)stacks;
    (void)stack_bytes;
    if (cores != 1)
        tl_single_fail("this chip has one core");
    TL_SINGLE_MARK(RUN);
    fn(arg);
    TL_SINGLE_MARK(PHASE);
    TL_SINGLE_MARK(END);
}

static uint32_t moved;

uint32_t tl_dma_bytes(void)
{
    return moved;
}

static void copy(char *to, const char *from, size_t row_bytes, size_t rows, size_t to_pitch, size_t from_pitch)
{
    for (size_t r = 0; r < rows; r++)
        __builtin_memcpy(to + r * to_pitch, from + r * from_pitch, row_bytes);
    moved += (uint32_t)(row_bytes * rows);
}

void tl_dma_in(tl_dma_t *job, void *l1, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    copy(l1, l2, row_bytes, rows, row_bytes, pitch);
    job->done = 1;
}

void tl_dma_out(tl_dma_t *job, void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch)
{
    copy(l2, l1, row_bytes, rows, pitch, row_bytes);
    job->done = 1;
}

void tl_dma_wait(tl_dma_t *job)
{
    (void)job;
}

/* ---- after reset ---- */

void tl_single_main(void)
{
    const uint32_t *from = tl_single_contents;
    for (uint32_t *to = tl_single_data; to < tl_single_data_end; to++)
        *to = *from++;
    tl_exit(main());
    for (;;)
        continue;
}
#endif
