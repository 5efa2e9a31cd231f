/* Examples to learn from, one behind the other: what `trainlib-deploy data` writes, in a file, a flash or a memory. A
 * sample, what a step takes, is as many of them as the network's batch. They are read in any order, straight to where
 * the step finds them. */
#ifndef TL_EXAMPLES_H
#define TL_EXAMPLES_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { TL_EXAMPLES_HEADER = 32 }; /* bytes before the first example */

/* What goes wrong with examples and with learning from them. */
enum {
    TL_DATA_FINE,
    TL_DATA_NONE,    /* no examples are there */
    TL_DATA_VERSION, /* written by another version of trainlib-deploy */
    TL_DATA_NETWORK, /* for inputs and targets of other shapes or types */
    TL_DATA_DAMAGED, /* cut off or changed */
    TL_DATA_STORE,   /* reading failed */
    TL_DATA_LABEL,   /* a label is no class */
    TL_DATA_FEW,     /* less than one sample */
    TL_DATA_NAN,     /* the loss is not a number */
    TL_DATA_RATES,   /* the schedule of learning rates ends before the training */
    TL_DATA_ABSENT   /* there is no such file */
};

/* An input or target. */
typedef struct {
    void *at;         /* where the step reads the first example's */
    uint32_t bytes;   /* of one example */
    uint32_t classes; /* int32_t labels: 0 to classes - 1, or `ignored`; 0: anything */
    int32_t ignored;
} tl_field;

/* What net_train_step takes. */
typedef struct {
    uint32_t layout[2]; /* what roles, shapes and types hash to */
    uint32_t bytes;     /* of an example */
    uint32_t examples;
    int count; /* fields, in the order of an example's bytes */
    const tl_field *fields;
} tl_sample;

/* Examples somewhere. */
typedef struct tl_examples {
    /* Supplied by you: these bytes, counted from the first of the header; 0 when they were read. */
    int (*read)(const struct tl_examples *from, uint32_t at, void *data, uint32_t bytes);
    void *context;  /* your own */
    uint32_t count; /* filled in by tl_examples_open */
} tl_examples;

/* Look at all of them once, and count them. */
int tl_examples_open(tl_examples *from, const tl_sample *sample);
/* One of them to its place in the sample. */
int tl_examples_take(const tl_examples *from, const tl_sample *sample, uint32_t number, uint32_t place);

/* The same of a file of the machine that runs the program or its simulator; it stays open. */
int tl_examples_from_file(tl_examples *from, const tl_sample *sample, const char *name);
void tl_data_demand(int fault, const char *what); /* ends the program unless the fault is 0 */

/* A fault in words. */
const char *tl_data_words(int fault);
#ifdef __cplusplus
}
#endif
#endif
