/* The emulated cluster on QEMU's machine `virt`: console, end and record through its devices and semihosting. */
#if defined(TL_HAL_RV32) && !defined(TL_SPIKE)
#include "rv32_machine.h"

enum { SEMIHOST_OPEN = 1, SEMIHOST_CLOSE = 2, SEMIHOST_WRITE = 5, SEMIHOST_COMMAND_LINE = 0x15 };
enum { MODE_WRITE_BINARY = 5 };

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
        tl_rv32_fail("opening the record");
    return 1;
}

void tl_record(const void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)record, (uint32_t)data, bytes};
    MARK_PAUSE;
    if (tl_rv32_semihost(SEMIHOST_WRITE, block))
        tl_rv32_fail("writing the record");
    MARK_RESUME;
}

void tl_rv32_close_record(void)
{
    const uint32_t handle[1] = {(uint32_t)record};
    if (record >= 0 && tl_rv32_semihost(SEMIHOST_CLOSE, handle))
        tl_rv32_fail("closing the record");
}
#endif
