/* A file as the store of one state, where the machine or its simulator has files. */
#include "tl_hal.h"
#include "tl_state.h"

enum { PAGE = 256 };

typedef struct {
    const char *name;
    int file; /* -1: not open */
} place;

static int reopen(place *p, int writing)
{
    if (p->file >= 0)
        tl_file_close(p->file);
    p->file = tl_file_open(p->name, writing);
    return p->file < 0;
}

static int read_file(const tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes)
{
    place *p = store->context;
    (void)slot;
    return (!at && reopen(p, 0)) || tl_file_read(p->file, data, bytes);
}

static int erase_file(const tl_store *store, int slot)
{
    (void)slot;
    return reopen(store->context, 1);
}

static int write_file(const tl_store *store, int slot, uint32_t at, const void *data)
{
    const place *p = store->context;
    (void)slot;
    (void)at;
    return tl_file_write(p->file, data, PAGE);
}

int tl_state_to_file(const tl_state *state, const char *name)
{
    uint32_t page[PAGE / sizeof(uint32_t)];
    place p = {name, -1};
    const tl_store store = {read_file, erase_file, write_file, PAGE, page, &p};
    if (name[0] == '-' && !name[1]) {
        tl_state_print(state);
        return TL_STATE_FINE;
    }
    const int fault = tl_state_write(state, &store, 0, 1);
    if (p.file >= 0)
        tl_file_close(p.file);
    return fault;
}

int tl_state_from_file(const tl_state *state, const char *name)
{
    uint32_t page[PAGE / sizeof(uint32_t)];
    place p = {name, -1};
    const tl_store store = {read_file, erase_file, write_file, PAGE, page, &p};
    if (reopen(&p, 0))
        return TL_STATE_ABSENT;
    const int fault = tl_state_read(state, &store, 0);
    tl_file_close(p.file);
    return fault == TL_STATE_STORE ? TL_STATE_DAMAGED : fault; /* shorter than it should be */
}

void tl_state_demand(int fault, const char *what)
{
    if (!fault)
        return;
    tl_puts("FAULT: ");
    tl_puts(what);
    tl_puts(": ");
    tl_puts(tl_state_words(fault));
    tl_puts("\n");
    tl_exit(3);
}
