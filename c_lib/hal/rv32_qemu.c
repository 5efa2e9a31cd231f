/* The emulated cluster on QEMU's machine `virt`: console, end and record through its devices and semihosting. */
#if defined(TL_HAL_RV32) && !defined(TL_SPIKE)
#include "rv32_machine.h"

#define UART ((volatile uint8_t *)0x10000000)
#define FINISHER ((volatile uint32_t *)0x00100000)

uint32_t tl_rv32_semihost(uint32_t operation, const void *block);

static inline uint32_t semihost(uint32_t operation, const void *block)
{
    return tl_rv32_semihost(operation, block);
}
#include "semihosting.h"

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

void tl_file_close(int file)
{
    const uint32_t handle[1] = {(uint32_t)file};
    if (semihost(SEMIHOST_CLOSE, handle))
        tl_rv32_fail("closing a file");
}

/* ---- the record: a file of the machine that runs the emulator ---- */

int tl_record_open(void)
{
    static char line[4096];
    const char *name = record_named(line, sizeof line);
    if (!name)
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
