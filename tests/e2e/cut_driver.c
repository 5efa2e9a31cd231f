/* Power lost at every byte of a save, whatever its size: what the next life would load. The code of states is as it
 * stands but for a checksum that agrees with everything: a part of a save has to be seen by the order of writing alone,
 * and no tensor need be read to know it. Erased forwards, backwards and written over without erasing. */
#define TL_CHECKSUM_H
#include <stdint.h>

static inline uint32_t tl_checksum(uint32_t sum, const void *data, uint32_t bytes)
{
    (void)sum;
    (void)data;
    (void)bytes;
    return 0;
}

#include "net.h"
#include "kernels/state.c"
#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 256, SLOT = (NET_STATE_BYTES / PAGE + 1) * PAGE };
enum { FORWARDS, BACKWARDS, WRITTEN_OVER, MANNERS };

static uint8_t flash[2][SLOT], page[PAGE], whole[NET_STATE_BYTES];
static int manner, lasting; /* the slot that must not be touched: -1 if either may */
static long cuts;

static int read_slot(const tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes)
{
    (void)store;
    if (bytes <= PAGE) /* header and trailer; of longer tensors nobody asks the contents */
        memcpy(data, flash[slot] + at, bytes);
    return 0;
}

static const tl_store reader = {read_slot, 0, 0, sizeof whole, whole, 0};

static void change(int slot, uint32_t at, uint8_t value, int complete)
{
    uint32_t sequence;
    int fault;
    flash[slot][at] = value;
    if (lasting < 0)
        return;
    const int found = newest(&net_state, &reader, &sequence, &fault);
    if (slot == lasting || found != (complete ? slot : lasting) || sequence != (complete ? 3 : 2)) {
        printf("manner %d: slot %d, save %u after byte %u of slot %d\n", manner, found, (unsigned)sequence,
               (unsigned)at, slot);
        exit(1);
    }
    cuts++;
}

static int erase_slot(const tl_store *store, int slot)
{
    (void)store;
    const int used = (TL_STATE_HEADER + (int)net_state.bytes + TL_STATE_TRAILER + PAGE - 1) / PAGE * PAGE;
    for (int i = manner == WRITTEN_OVER ? used - PAGE : 0; i < used; i++)
        change(slot, (uint32_t)(manner == BACKWARDS ? used - 1 - i : i), 0xff, 0);
    return 0;
}

static int write_slot(const tl_store *store, int slot, uint32_t at, const void *data)
{
    const uint32_t end = TL_STATE_HEADER + net_state.bytes + TL_STATE_TRAILER;
    for (uint32_t i = 0; i < store->page; i++)
        change(slot, at + i, ((const uint8_t *)data)[i], at + i + 1 >= end);
    return 0;
}

int main(void)
{
    const tl_store store = {read_slot, erase_slot, write_slot, PAGE, page, 0};
    net_init();
    for (manner = 0; manner < MANNERS; manner++) {
        memset(flash, 0xff, sizeof flash);
        lasting = -1;
        if (tl_state_save(&net_state, &store) || tl_state_save(&net_state, &store))
            return 1;
        lasting = 1;
        if (tl_state_save(&net_state, &store))
            return 1;
    }
    printf("fine: %ld cuts\n", cuts);
    return 0;
}
