/* Back end for one core without an operating system: one memory for tensors; code, constants and initial contents in
 * flash. Console, files and the end go through semihosting, which debuggers and QEMU's boards answer. What a core does
 * from reset to main is its own: single_cortexm.c, single_rv32.c. */
#if defined(TL_HAL_SINGLE)
#include "tl_hal.h"

enum {
    OPEN = 1,
    CLOSE = 2,
    PUTS = 4,
    WRITE = 5,
    READ = 6,
    SEEK = 0xa,
    COMMAND_LINE = 0x15,
    EXIT = 0x20,
    STOPPED = 0x20026,
    READ_BINARY = 1,
    WRITE_BINARY = 5
};

uint32_t tl_single_semihost(uint32_t operation, const void *block);
void tl_single_fail(const char *what) __attribute__((noreturn));
void tl_single_main(void) __attribute__((noreturn));
extern uint32_t tl_single_data[], tl_single_data_end[];
extern const uint32_t tl_single_contents[];
int main(void);

/* ---- console, files, end ---- */

void tl_puts(const char *text)
{
    tl_single_semihost(PUTS, text);
}

int tl_file_open(const char *name, int writing)
{
    uint32_t length = 0;
    while (name[length])
        length++;
    const uint32_t block[3] = {(uint32_t)name, writing ? WRITE_BINARY : READ_BINARY, length};
    return (int)tl_single_semihost(OPEN, block);
}

int tl_file_seek(int file, uint32_t at)
{
    const uint32_t block[2] = {(uint32_t)file, at};
    return tl_single_semihost(SEEK, block) != 0;
}

int tl_file_read(int file, void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)data, bytes};
    return (int)tl_single_semihost(READ, block);
}

int tl_file_write(int file, const void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)data, bytes};
    return (int)tl_single_semihost(WRITE, block);
}

void tl_file_close(int file)
{
    const uint32_t block[1] = {(uint32_t)file};
    tl_single_semihost(CLOSE, block);
}

static int record = -1;

void tl_exit(int code)
{
    const uint32_t block[2] = {STOPPED, (uint32_t)code};
    if (record >= 0)
        tl_file_close(record);
    tl_single_semihost(EXIT, block);
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

/* The record's file is named as the second word of the command line. */
int tl_record_open(void)
{
    static char line[512];
    const uint32_t block[2] = {(uint32_t)line, sizeof line};
    if (tl_single_semihost(COMMAND_LINE, block))
        return 0;
    const char *name = line;
    while (*name && *name++ != ' ')
        continue;
    if (!*name)
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
