/* States of networks: written page by page in order, the checksum and the end mark last. */
#include "tl_state.h"
#include "tl_checksum.h"
#if defined(TL_FAR)
#include "tl_hal.h"
#endif
#include <string.h>

enum { MAGIC = 0x54534c54, VERSION = 2, END = 0x444e4554 }; /* "TLST", "TEND" */

typedef struct {
    uint32_t magic, version, network[2], layout[2], bytes, sequence, check; /* of the header alone: bytes are sure */
} header;

typedef struct {
    uint32_t checksum, end;
} trailer;

_Static_assert(sizeof(header) == TL_STATE_HEADER && sizeof(trailer) == TL_STATE_TRAILER, "no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the least byte comes first");

/* ---- writing ---- */

typedef struct {
    const tl_store *store;
    int slot;
    uint32_t at, filled, sum; /* of the page in the store's buffer */
} writer;

static int flush(writer *w)
{
    const int failed = w->store->write(w->store, w->slot, w->at, w->store->buffer);
    w->at += w->store->page;
    w->filled = 0;
    return failed;
}

static int put(writer *w, const void *data, uint32_t bytes)
{
    const uint8_t *from = data;
    w->sum = tl_checksum(w->sum, data, bytes);
    while (bytes) {
        const uint32_t room = w->store->page - w->filled, some = bytes < room ? bytes : room;
        memcpy((uint8_t *)w->store->buffer + w->filled, from, some);
        w->filled += some;
        from += some;
        bytes -= some;
        if (w->filled == w->store->page && flush(w))
            return 1;
    }
    return 0;
}

static int put_piece(writer *w, const tl_piece *piece)
{
#if defined(TL_FAR)
    uint32_t some[16];
    for (uint32_t at = 0, left = piece->bytes; !piece->data && left;) {
        const uint32_t count = left < sizeof some ? left : sizeof some;
        tl_far_read(some, piece->far + at, count);
        if (put(w, some, count))
            return 1;
        at += count;
        left -= count;
    }
    if (!piece->data)
        return 0;
#endif
    return put(w, piece->data, piece->bytes);
}

static int put_end(writer *w)
{
    const trailer last = {w->sum, END};
    if (put(w, &last, sizeof last))
        return 1;
    if (!w->filled)
        return 0;
    memset((uint8_t *)w->store->buffer + w->filled, 0xff, w->store->page - w->filled);
    return flush(w);
}

static int put_all(const tl_state *state, writer *w, uint32_t sequence)
{
    header first = {.magic = MAGIC, .version = VERSION, .bytes = state->bytes, .sequence = sequence};
    memcpy(first.network, state->network, sizeof first.network);
    memcpy(first.layout, state->layout, sizeof first.layout);
    first.check = tl_checksum(0, &first, offsetof(header, check));
    if (w->store->erase(w->store, w->slot) || put(w, &first, sizeof first))
        return 1;
    for (int i = 0; i < state->count; i++)
        if (put_piece(w, &state->pieces[i]))
            return 1;
    return put_end(w);
}

/* ---- reading ---- */

/* Two words: PULP-SDK's string.h has no memcmp. */
static int equal(const uint32_t *a, const uint32_t *b)
{
    return a[0] == b[0] && a[1] == b[1];
}

/* How many bytes of what was saved are this program's: all, or parameters and buffers alone. */
static uint32_t wanted(const tl_state *state, const header *found)
{
    if (equal(found->layout, state->layout) && found->bytes == state->bytes)
        return state->bytes;
    const int same = equal(found->network, state->network);
    return same && found->bytes >= state->shared ? state->shared : 0;
}

static int header_fault(const tl_state *state, const header *found)
{
    if (found->magic != MAGIC)
        return TL_STATE_NONE;
    if (found->version != VERSION)
        return TL_STATE_VERSION;
    if (found->check != tl_checksum(0, found, offsetof(header, check)))
        return TL_STATE_DAMAGED;
    return wanted(state, found) ? TL_STATE_FINE : TL_STATE_NETWORK;
}

static void keep(const tl_piece *to, uint32_t at, const void *data, uint32_t bytes)
{
#if defined(TL_FAR)
    if (!to->data) {
        tl_far_write(to->far + at, data, bytes);
        return;
    }
#endif
    memcpy((uint8_t *)to->data + at, data, bytes);
}

/* Through the store's buffer to `to`, if that is not 0; adds to a checksum, and to another if that is not 0. */
static int fetch(const tl_store *store, int slot, uint32_t at, uint32_t bytes, const tl_piece *to, uint32_t *sum,
                 uint32_t *own)
{
    uint32_t done = 0;
    while (bytes) {
        const uint32_t some = bytes < store->page ? bytes : store->page;
        if (store->read(store, slot, at, store->buffer, some))
            return 1;
        *sum = tl_checksum(*sum, store->buffer, some);
        if (own)
            *own = tl_checksum(*own, store->buffer, some);
        if (to)
            keep(to, done, store->buffer, some);
        done += some;
        at += some;
        bytes -= some;
    }
    return 0;
}

/* One pass over a slot, in order: is its state whole? If `taking`, into the tensors. */
static int read_all(const tl_state *state, const tl_store *store, int slot, int taking, uint32_t *sequence)
{
    header first;
    trailer last;
    const tl_piece beginning = {.data = &first, .bytes = sizeof first}, ending = {.data = &last, .bytes = sizeof last};
    uint32_t at = sizeof first, sum = 0, rest = 0, others = 0;
    if (fetch(store, slot, 0, sizeof first, &beginning, &sum, 0))
        return TL_STATE_STORE;
    const int fault = header_fault(state, &first);
    if (fault)
        return fault;
    const uint32_t end = sizeof first + first.bytes, ours = sizeof first + wanted(state, &first);
    for (int i = 0; at < ours; at += state->pieces[i++].bytes) {
        const tl_piece *piece = &state->pieces[i];
        const uint32_t wants = state->contents ? state->contents[i] : 0;
        uint32_t own = 0;
        if (fetch(store, slot, at, piece->bytes, taking ? piece : 0, &sum, wants ? &own : 0))
            return TL_STATE_STORE;
        others |= own ^ wants;
    }
    if (fetch(store, slot, at, end - at, 0, &sum, 0) || fetch(store, slot, end, sizeof last, &ending, &rest, 0))
        return TL_STATE_STORE;
    *sequence = first.sequence;
    if (last.end != END || last.checksum != sum)
        return TL_STATE_DAMAGED;
    return others ? TL_STATE_NETWORK : TL_STATE_FINE;
}

static int take(const tl_state *state, const tl_store *store, int slot)
{
    uint32_t sequence;
    return read_all(state, store, slot, 1, &sequence) ? TL_STATE_STORE : TL_STATE_FINE;
}

/* The slot with the newest whole state, or -1; its sequence number; why there is none. */
static int newest(const tl_state *state, const tl_store *store, uint32_t *sequence, int *fault)
{
    int found = -1;
    *fault = TL_STATE_FINE;
    *sequence = 0;
    for (int slot = 0; slot < 2; slot++) {
        uint32_t number;
        const int wrong = read_all(state, store, slot, 0, &number);
        if (wrong) {
            *fault = wrong > *fault ? wrong : *fault;
        } else if (found < 0 || (int32_t)(number - *sequence) > 0) {
            found = slot;
            *sequence = number;
        }
    }
    return found;
}

/* ---- what others call ---- */

int tl_state_send(const tl_state *state, const tl_store *store)
{
    writer w = {store, 0, 0, 0, 0};
    return put_all(state, &w, 1) ? TL_STATE_STORE : TL_STATE_FINE;
}

int tl_state_write(const tl_state *state, const tl_store *store, int slot, uint32_t sequence)
{
    writer w = {store, slot, 0, 0, 0};
    uint32_t found;
    if (put_all(state, &w, sequence))
        return TL_STATE_STORE;
    return read_all(state, store, slot, 0, &found) ? TL_STATE_STORE : TL_STATE_FINE;
}

int tl_state_read(const tl_state *state, const tl_store *store, int slot)
{
    uint32_t sequence;
    const int fault = read_all(state, store, slot, 0, &sequence);
    return fault ? fault : take(state, store, slot);
}

int tl_state_save(const tl_state *state, const tl_store *store)
{
    uint32_t sequence;
    int fault;
    const int last = newest(state, store, &sequence, &fault);
    return tl_state_write(state, store, last == 0 ? 1 : 0, sequence + 1);
}

int tl_state_load(const tl_state *state, const tl_store *store)
{
    uint32_t sequence;
    int fault;
    const int last = newest(state, store, &sequence, &fault);
    return last < 0 ? fault : take(state, store, last);
}

const char *tl_state_words(int fault)
{
    static const char *const words[] = {"fine",
                                        "nothing was saved there",
                                        "saved by another version",
                                        "saved by another network",
                                        "damaged",
                                        "the store fails",
                                        "there is no such file, seen from the project's folder"};
    return words[fault < 0 || fault > TL_STATE_ABSENT ? TL_STATE_STORE : fault];
}
