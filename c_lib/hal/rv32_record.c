/* The record of the emulated cluster: a file of the machine that runs the emulator, which knows its name. */
#if defined(TL_HAL_RV32)
#include "rv32_machine.h"

static int32_t record = -1;

int tl_record_open(void)
{
    static char line[4096] __attribute__((aligned(8)));
    const char *name = tl_rv32_record_named(line, sizeof line);
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
