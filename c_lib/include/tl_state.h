/* What a network has learned, as bytes that any build of the same network reads back: a header, its tensors one behind
 * the other, a checksum. Parameters and buffers come first, then what the optimizer keeps, both in the order of their
 * names. Nothing in it depends on where tensors lie.
 *
 * A store keeps it: two slots that are written in turn, so that power lost at any moment leaves the state before or the
 * one after. The firmware fills in how its memory is read, erased and written. */
#ifndef TL_STATE_H
#define TL_STATE_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { TL_STATE_HEADER = 36, TL_STATE_TRAILER = 8, TL_STATE_PAGE = 32 }; /* bytes; the page is that of net_save */

/* What saving and loading return: 0, or the first thing that was wrong. */
enum {
    TL_STATE_FINE,
    TL_STATE_NONE,    /* nothing was saved there */
    TL_STATE_VERSION, /* saved by another version of trainlib-deploy */
    TL_STATE_NETWORK, /* saved by another network: names, shapes, types or what has to be in them differ */
    TL_STATE_DAMAGED, /* cut off or changed */
    TL_STATE_STORE,   /* the store's own functions failed, or what was written does not read back */
    TL_STATE_ABSENT   /* there is no such file */
};

/* One tensor. */
typedef struct {
    void *data; /* 0: it lies behind L2 */
    uint32_t bytes;
#if defined(TL_FAR)
    uint32_t far; /* then, where */
#endif
} tl_piece;

typedef struct {
    uint32_t network[2]; /* what names, shapes and types of parameters and buffers hash to */
    uint32_t layout[2];  /* the same of all pieces */
    uint32_t shared;     /* bytes of parameters and buffers, if those of another program will do; 0: they will not */
    uint32_t bytes;      /* of all pieces */
    int count;
    const tl_piece *pieces;
    const uint32_t *contents; /* 0, or of every piece the checksum that another program's must have; there 0: any */
} tl_state;

/* The functions return 0 when they did what was asked. A slot has room for the size of a state in whole pages. */
typedef struct tl_store {
    /* In order from the first byte, as often as asked for. */
    int (*read)(const struct tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes);
    /* After it nothing is left of what the slot held; where writing needs no erasing, of its last page. */
    int (*erase)(const struct tl_store *store, int slot);
    /* One page, in order from the first. */
    int (*write)(const struct tl_store *store, int slot, uint32_t at, const void *data);
    uint32_t page; /* bytes, at least TL_STATE_PAGE */
    void *buffer;  /* of one page: all that is read and written goes through it */
    void *context; /* the firmware's own */
} tl_store;

/* Write to the slot that does not hold the newest state, and read it back. */
int tl_state_save(const tl_state *state, const tl_store *store);
/* Read the newest whole state. Unless it returns 0 nothing was changed; but TL_STATE_STORE, which says that reading
 * failed half-way. */
int tl_state_load(const tl_state *state, const tl_store *store);

/* The same with one slot, which a loss of power leaves damaged. */
int tl_state_write(const tl_state *state, const tl_store *store, int slot, uint32_t sequence);
int tl_state_read(const tl_state *state, const tl_store *store, int slot);

/* Erase, and write all pages of slot 0, to where nothing can be read back: a line to somebody who keeps it. */
int tl_state_send(const tl_state *state, const tl_store *store);
/* The same as text through tl_puts: lines that begin with TLSTATE. */
void tl_state_print(const tl_state *state);

/* The same with memory, TL_STATE_PAGE by TL_STATE_PAGE; `bytes` are those that are there. */
int tl_state_to_memory(const tl_state *state, void *buffer);
int tl_state_from_memory(const tl_state *state, const void *buffer, size_t bytes);

/* The same with a file of the machine that runs the program or its simulator; "-" is tl_state_print. */
int tl_state_to_file(const tl_state *state, const char *name);
int tl_state_from_file(const tl_state *state, const char *name);
void tl_state_demand(int fault, const char *what); /* ends the program unless the fault is 0 */

/* A fault in words. */
const char *tl_state_words(int fault);
#ifdef __cplusplus
}
#endif
#endif
