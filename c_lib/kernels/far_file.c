/* What lies behind L2 before the first step, from a file. */
#include "tl_far_file.h"

#if defined(TL_FAR) && !defined(TL_FAR_LINKED)
enum { SOME = 512 };
static uint8_t some[SOME];

void tl_far_fill(const char *name, const tl_far_part *parts, int count)
{
    const int file = tl_file_open(name, 0);
    int failed = file < 0;
    for (int i = 0; i < count && !failed; i++)
        for (uint32_t done = 0; done < parts[i].bytes && !failed; done += SOME) {
            const uint32_t left = parts[i].bytes - done, bytes = left < SOME ? left : SOME;
            for (uint32_t k = 0; !parts[i].stored && k < bytes; k++)
                some[k] = 0;
            failed = parts[i].stored && tl_file_read(file, some, bytes);
            tl_far_write(parts[i].at + done, some, bytes);
        }
    if (failed) {
        tl_puts("FAULT: cannot read ");
        tl_puts(name);
        tl_puts("\n");
        tl_exit(3);
    }
    tl_file_close(file);
}
#endif
