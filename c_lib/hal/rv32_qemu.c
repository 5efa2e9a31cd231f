/* The emulated cluster on QEMU's machine `virt`: console, end and record through its devices and semihosting. */
#if defined(TL_HAL_RV32) && !defined(TL_SPIKE)
#include "rv32_machine.h"

enum { SEMIHOST_OPEN = 1, SEMIHOST_CLOSE = 2, SEMIHOST_WRITE = 5, SEMIHOST_READ = 6, SEMIHOST_SEEK = 10 };
enum { SEMIHOST_COMMAND_LINE = 0x15 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };

#define UART ((volatile uint8_t *)0x10000000)
#define FINISHER ((volatile uint32_t *)0x00100000)

uint32_t tl_rv32_semihost(uint32_t operation, const void *block);

const uint32_t tl_rv32_devices[2] = {0x10000000, 0x00100000};
static int32_t record = -1;

void tl_puts(const char *text)
{
    for (; *text; text++)
        UART[0] = (uint8_t)*text;
}

void tl_rv32_stop(int code)
{
    *FINISHER = code ? (uint32_t)(code & 0xff) << 16 | 0x3333 : 0x5555;
    for (;;)
        __asm__ volatile("wfi");
}

/* ---- files ---- */

int tl_file_open(const char *name, int writing)
{
    uint32_t length = 0;
    while (name[length])
        length++;
    const uint32_t block[3] = {(uint32_t)name, writing ? MODE_WRITE_BINARY : MODE_READ_BINARY, length};
    return (int)tl_rv32_semihost(SEMIHOST_OPEN, block);
}

int tl_file_seek(int file, uint32_t at)
{
    const uint32_t block[2] = {(uint32_t)file, at};
    return tl_rv32_semihost(SEMIHOST_SEEK, block) != 0;
}

int tl_file_read(int file, void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)data, bytes};
    return (int)tl_rv32_semihost(SEMIHOST_READ, block);
}

int tl_file_write(int file, const void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)data, bytes};
    return (int)tl_rv32_semihost(SEMIHOST_WRITE, block);
}

void tl_file_close(int file)
{
    const uint32_t handle[1] = {(uint32_t)file};
    if (tl_rv32_semihost(SEMIHOST_CLOSE, handle))
        tl_rv32_fail("closing a file");
}

/* ---- the record: a file of the machine that runs the emulator, named as the second word of the command line ---- */

int tl_record_open(void)
{
    static char line[4096];
    const uint32_t ask[2] = {(uint32_t)line, sizeof line};
    if (tl_rv32_semihost(SEMIHOST_COMMAND_LINE, ask))
        return 0;
    const char *name = line;
    while (*name && *name++ != ' ')
        continue;
    if (!*name)
        return 0;
    record = tl_file_open(name, 1);
    if (record < 0)
        tl_rv32_fail("opening the record");
    return 1;
}

void tl_record(const void *data, size_t bytes)
{
    MARK_PAUSE;
    if (tl_file_write(record, data, bytes))
        tl_rv32_fail("writing the record");
    MARK_RESUME;
}

void tl_rv32_close_record(void)
{
    if (record >= 0)
        tl_file_close(record);
}
#endif
