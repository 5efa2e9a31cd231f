/* Examples in a file, where the machine or its simulator has files. */
#include "tl_examples.h"
#include "tl_hal.h"

static int read_file(const tl_examples *from, uint32_t at, void *data, uint32_t bytes)
{
    const int file = (int)(intptr_t)from->context;
    return tl_file_seek(file, at) || tl_file_read(file, data, bytes);
}

int tl_examples_from_file(tl_examples *from, const tl_sample *sample, const char *name)
{
    const int file = tl_file_open(name, 0);
    uint8_t more;
    from->read = read_file;
    from->context = (void *)(intptr_t)file;
    if (file < 0)
        return TL_DATA_ABSENT;
    int fault = tl_examples_open(from, sample);
    if (!fault && !read_file(from, TL_EXAMPLES_HEADER + from->count * sample->bytes, &more, 1))
        fault = TL_DATA_DAMAGED; /* longer than it should be */
    if (fault)
        tl_file_close(file);
    return fault;
}

void tl_data_demand(int fault, const char *what)
{
    if (!fault)
        return;
    tl_puts("FAULT: ");
    tl_puts(what);
    tl_puts(": ");
    tl_puts(tl_data_words(fault));
    tl_puts("\n");
    tl_exit(3);
}
