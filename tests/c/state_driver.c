/* Power lost at every byte of a save, in memory that is erased in pages and in memory that is written over; then
 * damaged states. Prints what went wrong first and exits with 1. Arguments: bytes of a page, 1 if erasing is done in
 * order. */
#include "tl_checksum.h"
#include "tl_state.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT = 1024, MOST_PAGE = 300 };

static struct {
    uint8_t a[7];
    float b[10];
    uint8_t c[333];
} net, before, after, loaded;
static const tl_piece pieces[] = {{net.a, sizeof net.a}, {net.b, sizeof net.b}, {net.c, sizeof net.c}};
static tl_state state = {{3, 4}, {1, 2}, 0, sizeof net.a + sizeof net.b + sizeof net.c, 3, pieces, 0};
/* A program that has the first two, and a piece of its own. */
static uint8_t own[5];
static const tl_piece others[] = {{net.a, sizeof net.a}, {net.b, sizeof net.b}, {own, sizeof own}};
static uint32_t contents[3]; /* of the second */
static tl_state twin = {{3, 4}, {5, 6},  sizeof net.a + sizeof net.b, sizeof net.a + sizeof net.b + sizeof own, 3,
                        others, contents};

static uint8_t flash[2][SLOT], buffer[MOST_PAGE];
static int erases; /* or is written over */
static long budget, spent;
static uint32_t furthest; /* that was read */
static jmp_buf power;

static void fail(const char *what, long at)
{
    printf("%s at byte %ld\n", what, at);
    exit(1);
}

static void change(uint8_t *at, uint8_t value)
{
    if (spent++ == budget)
        longjmp(power, 1);
    *at = value;
}

static int read_slot(const tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes)
{
    if (at + bytes > furthest)
        furthest = at + bytes;
    if (data != store->buffer || bytes > store->page || at + bytes > SLOT)
        return 1;
    memcpy(data, flash[slot] + at, bytes);
    return 0;
}

static int write_slot(const tl_store *store, int slot, uint32_t at, const void *data)
{
    if (data != store->buffer || at % store->page || at + store->page > SLOT)
        return 1;
    for (uint32_t i = 0; i < store->page; i++) {
        if (erases && flash[slot][at + i] != 0xff)
            fail("written without being erased", at + i);
        change(&flash[slot][at + i], ((const uint8_t *)data)[i]);
    }
    return 0;
}

static uint32_t whole(const tl_store *store)
{
    const uint32_t size = TL_STATE_HEADER + state.bytes + TL_STATE_TRAILER;
    return (size + store->page - 1) / store->page * store->page;
}

static int erase_slot(const tl_store *store, int slot)
{
    const uint32_t size = whole(store);
    for (uint32_t i = erases ? 0 : size - store->page; i < size; i++)
        change(&flash[slot][erases == 2 ? size - 1 - i : i], erases ? 0xff : 0);
    return 0;
}

static void learn(void)
{
    for (size_t i = 0; i < sizeof net; i++)
        ((uint8_t *)&net)[i] = (uint8_t)rand();
}

/* The tensors and nothing between them. */
static int same(const void *x)
{
    const __typeof__(net) *other = x;
    return !memcmp(net.a, other->a, sizeof net.a) && !memcmp(net.b, other->b, sizeof net.b) &&
           !memcmp(net.c, other->c, sizeof net.c);
}

static void save(const tl_store *store)
{
    budget = -1;
    spent = 0;
    if (tl_state_save(&state, store))
        fail("saving fails", 0);
}

/* One save with less and less power, from two slots that hold older states. */
static void cut_everywhere(const tl_store *store)
{
    static uint8_t was[2][SLOT];
    learn();
    save(store);
    before = net;
    memcpy(was, flash, sizeof was);
    learn();
    after = net;
    save(store);
    const long all = spent;
    for (volatile long at = 0; at <= all; at++) {
        memcpy(flash, was, sizeof was);
        net = after;
        budget = at;
        spent = 0;
        if (!setjmp(power))
            tl_state_save(&state, store);
        learn();
        if (tl_state_load(&state, store))
            fail("nothing left", at);
        if (!same(at < all ? &before : &after) && !same(&after))
            fail("a mixture", at);
        learn();
        loaded = net;
        save(store); /* what comes next works */
        learn();
        if (tl_state_load(&state, store) || !same(&loaded))
            fail("the next save is lost", at);
    }
}

/* Every byte changed, every length: refused, and nothing changed. */
static void damage(void)
{
    static uint8_t image[SLOT];
    tl_state_to_memory(&state, image);
    const size_t size = TL_STATE_HEADER + state.bytes + TL_STATE_TRAILER;
    loaded = net;
    learn();
    before = net;
    for (size_t at = 0; at < 2 * size; at++) {
        uint8_t *exact = malloc(at < size ? size : at - size + 1); /* the sanitizer guards its end */
        if (at < size) {
            memcpy(exact, image, size);
            exact[at] ^= (uint8_t)(1 + rand() % 255);
        } else {
            memcpy(exact, image, at - size);
        }
        /* the sequence number is summed too; no byte is without effect */
        if (!tl_state_from_memory(&state, exact, at < size ? size : at - size) || !same(&before))
            fail("damage is not seen", (long)at);
        free(exact);
    }
    if (tl_state_from_memory(&state, image, size) || !same(&loaded))
        fail("an undamaged state does not load", 0);
    state.layout[1]++;
    if (tl_state_from_memory(&state, image, size) != TL_STATE_NETWORK)
        fail("another network's state loads", 0);
    state.layout[1]--;
}

/* Where a header is damaged, nobody reads on behind the end. */
static void stay_inside(const tl_store *store)
{
    const tl_state tiny = {{3, 4}, {7, 8}, 0, sizeof own, 1, others + 2, 0};
    tl_state_write(&state, store, 0, 1);
    furthest = 0;
    for (size_t at = 0; at < TL_STATE_HEADER; at++) {
        const uint8_t was = flash[0][at];
        flash[0][at] ^= (uint8_t)(1 + rand() % 255);
        if (!tl_state_read(&twin, store, 0) || furthest > whole(store))
            fail("a damaged header is believed", (long)at);
        flash[0][at] = was;
    }
    tl_state_write(&tiny, store, 0, 1);
    if (tl_state_read(&twin, store, 0) != TL_STATE_NETWORK)
        fail("too few tensors load", 0);
}

/* Parameters and buffers of another program's state: all of it is looked at, the rest stays as it is. */
static void share(void)
{
    static uint8_t image[SLOT];
    tl_state_to_memory(&state, image);
    const size_t size = TL_STATE_HEADER + state.bytes + TL_STATE_TRAILER;
    loaded = net;
    learn();
    before = net;
    memset(own, 7, sizeof own);
    for (size_t at = 0; at < size; at++) {
        const uint8_t was = image[at];
        image[at] ^= (uint8_t)(1 + rand() % 255);
        if (!tl_state_from_memory(&twin, image, size) || !same(&before))
            fail("damage is not seen by another program", (long)at);
        image[at] = was;
    }
    if (tl_state_from_memory(&twin, image, size) || memcmp(net.a, loaded.a, sizeof net.a) ||
        memcmp(net.b, loaded.b, sizeof net.b) || memcmp(net.c, before.c, sizeof net.c) || own[0] != 7)
        fail("another program does not take what it shares", 0);
    contents[1] = tl_checksum(0, loaded.b, sizeof loaded.b);
    if (tl_state_from_memory(&twin, image, size))
        fail("the only contents that will do are refused", 0);
    contents[1]++;
    learn();
    before = net;
    if (tl_state_from_memory(&twin, image, size) != TL_STATE_NETWORK || !same(&before))
        fail("other contents load", 0);
    image[size / 2]++;
    if (tl_state_from_memory(&twin, image, size) != TL_STATE_DAMAGED)
        fail("damage is taken for other contents", 0);
    image[size / 2]--;
    contents[1] = 0;
    twin.network[0]++;
    if (tl_state_from_memory(&twin, image, size) != TL_STATE_NETWORK)
        fail("another network's tensors load", 0);
    twin.network[0]--;
    twin.shared = 0;
    if (tl_state_from_memory(&twin, image, size) != TL_STATE_NETWORK)
        fail("a program that shares nothing takes something", 0);
    twin.shared = sizeof net.a + sizeof net.b;
    tl_state_to_memory(&twin, image);
    if (tl_state_from_memory(&twin, image, size) || tl_state_from_memory(&state, image, size) != TL_STATE_NETWORK)
        fail("a program's own state", 0);
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    const tl_store store = {read_slot, erase_slot, write_slot, (uint32_t)atoi(words[1]), buffer, 0};
    erases = atoi(words[2]);
    memset(flash, 0xff, sizeof flash);
    if (tl_state_load(&state, &store) != TL_STATE_NONE)
        fail("something in nothing", 0);
    save(&store);
    uint32_t *sequence = (uint32_t *)(void *)(flash[0] + 28);
    if (*sequence != 1)
        fail("the first number is not 1", 0);
    tl_state_write(&state, &store, 0, UINT32_MAX - 2); /* numbers begin again soon */
    for (int i = 0; i < 6; i++)
        cut_everywhere(&store);
    damage();
    share();
    stay_inside(&store);
    puts("fine");
    return 0;
}
