/* The emulated cluster on QEMU's machine `virt`: console, end and files through its devices and semihosting. */
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

const char *tl_rv32_record_named(char *line, size_t bytes)
{
    return record_named(line, bytes);
}
#endif
