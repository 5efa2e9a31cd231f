/* Files, by a debugger or a simulator in its place. What includes this has its machine's own way to ask:
 * uint32_t semihost(uint32_t operation, const void *block). */
#ifndef TL_SEMIHOSTING_H
#define TL_SEMIHOSTING_H
#include "tl_hal.h"

enum { SEMIHOST_OPEN = 1, SEMIHOST_CLOSE = 2, SEMIHOST_PUTS = 4, SEMIHOST_WRITE = 5, SEMIHOST_READ = 6 };
enum { SEMIHOST_SEEK = 0xa, SEMIHOST_COMMAND_LINE = 0x15, SEMIHOST_EXIT = 0x20, SEMIHOST_STOPPED = 0x20026 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };

int tl_file_open(const char *name, int writing)
{
    uint32_t length = 0;
    while (name[length])
        length++;
    const uint32_t block[3] = {(uint32_t)(uintptr_t)name, writing ? MODE_WRITE_BINARY : MODE_READ_BINARY, length};
    return (int)semihost(SEMIHOST_OPEN, block);
}

int tl_file_seek(int file, uint32_t at)
{
    const uint32_t block[2] = {(uint32_t)file, at};
    return semihost(SEMIHOST_SEEK, block) != 0;
}

int tl_file_read(int file, void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, (uint32_t)bytes};
    return (int)semihost(SEMIHOST_READ, block);
}

int tl_file_write(int file, const void *data, size_t bytes)
{
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, (uint32_t)bytes};
    return (int)semihost(SEMIHOST_WRITE, block);
}

/* The name of the record's file: the second word of the command line; 0 where there is none. */
static inline const char *record_named(char *line, uint32_t bytes)
{
    const uint32_t block[2] = {(uint32_t)(uintptr_t)line, bytes};
    if (semihost(SEMIHOST_COMMAND_LINE, block))
        return 0;
    const char *name = line;
    while (*name && *name++ != ' ')
        continue;
    return *name ? name : 0;
}
#endif
