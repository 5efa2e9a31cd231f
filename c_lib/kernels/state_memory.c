/* Memory as the store of one state. */
#include "tl_state.h"
#include <string.h>

typedef struct {
    uint8_t *bytes;
    size_t size;
} memory;

static int read_memory(const tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes)
{
    const memory *m = store->context;
    (void)slot;
    if (at > m->size || bytes > m->size - at)
        return 1;
    memcpy(data, m->bytes + at, bytes);
    return 0;
}

static int write_memory(const tl_store *store, int slot, uint32_t at, const void *data)
{
    const memory *m = store->context;
    (void)slot;
    memcpy(m->bytes + at, data, store->page);
    return 0;
}

static int erase_memory(const tl_store *store, int slot)
{
    const memory *m = store->context;
    (void)slot;
    memset(m->bytes, 0, m->size);
    return 0;
}

int tl_state_to_memory(const tl_state *state, void *buffer)
{
    uint32_t page[TL_STATE_PAGE / sizeof(uint32_t)];
    memory all = {buffer, TL_STATE_HEADER + state->bytes + TL_STATE_TRAILER};
    const tl_store store = {read_memory, erase_memory, write_memory, TL_STATE_PAGE, page, &all};
    return tl_state_write(state, &store, 0, 1);
}

int tl_state_from_memory(const tl_state *state, const void *buffer, size_t bytes)
{
    uint32_t page[TL_STATE_PAGE / sizeof(uint32_t)];
    memory all = {(uint8_t *)(uintptr_t)buffer, bytes}; /* only read */
    const tl_store store = {read_memory, erase_memory, write_memory, TL_STATE_PAGE, page, &all};
    const int fault = tl_state_read(state, &store, 0);
    return fault == TL_STATE_STORE ? TL_STATE_DAMAGED : fault; /* shorter than it should be */
}
