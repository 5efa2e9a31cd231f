/* States as text: "TLSTATE", where a page begins, its bytes; so that lines of others between them do no harm. */
#include "tl_hal.h"
#include "tl_state.h"

static char *hex(char *to, uint32_t value, int digits)
{
    while (digits--)
        *to++ = "0123456789abcdef"[value >> 4 * digits & 15];
    return to;
}

static int print_page(const tl_store *store, int slot, uint32_t at, const void *data)
{
    char line[sizeof "TLSTATE 00000000 \n" + 2 * TL_STATE_PAGE] = "TLSTATE ", *to = line + 8;
    const uint8_t *from = data;
    (void)slot;
    to = hex(to, at, 8);
    *to++ = ' ';
    for (uint32_t i = 0; i < store->page; i++)
        to = hex(to, from[i], 2);
    *to++ = '\n';
    *to = 0;
    tl_puts(line);
    return 0;
}

static int nothing_to_erase(const tl_store *store, int slot)
{
    (void)store;
    (void)slot;
    return 0;
}

void tl_state_print(const tl_state *state)
{
    uint32_t page[TL_STATE_PAGE / sizeof(uint32_t)];
    const tl_store store = {0, nothing_to_erase, print_page, TL_STATE_PAGE, page, 0};
    tl_state_send(state, &store);
}
