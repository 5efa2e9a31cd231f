/* PULP-SDK back end: files, by GVSoC, only in builds that ask for them: without a simulator or a debugger the call
 * below never returns. */
#if defined(TL_HAL_PULP)
#include "tl_hal.h"

#if defined(TL_FILES) || defined(TL_RECORD_FILE)
#if defined(__riscv)
/* The three instructions that a simulator recognises together. The SDK has the same call without the clobber of memory.
 */
static uint32_t semihost(uint32_t operation, const void *block)
{
    register uint32_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = block;
    __asm__ volatile(".option push\n.option norvc\n"
                     "slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n"
                     ".option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}
#else
uint32_t semihost(uint32_t operation, const void *block); /* the tests' own */
#endif

#include "semihosting.h"

void tl_file_close(int file)
{
    semihost(SEMIHOST_CLOSE, (const void *)(uintptr_t)file); /* GVSoC takes the number itself, not its address */
}
#else
int tl_file_open(const char *name, int writing)
{
    (void)name;
    (void)writing;
    return -1;
}

int tl_file_seek(int file, uint32_t at)
{
    (void)file;
    (void)at;
    return 1;
}

int tl_file_read(int file, void *data, size_t bytes)
{
    (void)file;
    (void)data;
    return bytes != 0;
}

int tl_file_write(int file, const void *data, size_t bytes)
{
    (void)file;
    (void)data;
    return bytes != 0;
}

void tl_file_close(int file)
{
    (void)file;
}
#endif
#endif
