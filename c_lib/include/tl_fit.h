/* Learning from examples, epoch by epoch: in an order that is shuffled anew for each, with an evaluation on others
 * after it and an early end. The step number alone says where it stands: what was saved and loaded goes on in the
 * middle. */
#ifndef TL_FIT_H
#define TL_FIT_H
#include "tl_examples.h"
#ifdef __cplusplus
extern "C" {
#endif

/* An order of `count` things, of which any place can be asked for: no table, whatever the count. */
enum { TL_SHUFFLE_ROUNDS = 12 };
typedef struct {
    uint32_t count, mask;
    int shift;
    uint32_t keys[2 * TL_SHUFFLE_ROUNDS];
} tl_shuffle;
void tl_shuffle_begin(tl_shuffle *order, uint32_t count, uint32_t seed, uint32_t epoch);
uint32_t tl_shuffle_at(const tl_shuffle *order, uint32_t place);

/* What is told of an epoch. */
typedef struct {
    uint32_t epoch;      /* from 1 on */
    uint32_t steps;      /* of it in this run */
    float loss;          /* their mean, each before its update */
    int evaluated;       /* whether the others are filled in */
    float held_out_loss; /* means over samples */
    const float *metrics;
    int best; /* the lowest held_out_loss of this run so far: time to save */
} tl_epoch;

typedef struct {
    const tl_examples *train;
    const tl_examples *held_out; /* 0: no evaluation */
    uint32_t epochs;             /* counted from the first step on */
    uint32_t steps;              /* it ends after so many, too; 0: only after the epochs */
    uint32_t patience;           /* and after so many epochs that have not lowered the loss on `held_out`; 0: never */
    uint32_t seed;
    int in_order;                          /* not shuffled */
    float learning_rate, momentum;         /* the second, where the network's step takes it */
    const float *rates, *momenta;          /* or these, update by update */
    uint32_t updates;                      /* so many */
    void (*report)(const tl_epoch *epoch); /* or 0 */
} tl_fit;

/* What net_evaluate tells besides the loss. */
typedef struct {
    const char *name;
    float (*value)(void);
} tl_metric;

/* A network: what net_fit knows of it. */
typedef struct {
    const tl_sample *sample;
    const tl_sample *evaluated; /* what `evaluate` takes, where it is another one; its fields lie in the same places */
    float (*train)(float learning_rate, float momentum); /* the sample in place */
    float (*evaluate)(void);
    int (*steps)(void);
    void (*on_core)(void (*fn)(void *arg), void *arg); /* of the cluster: a controller may have no float unit */
    uint32_t accumulate;                               /* samples an update */
    int metrics;
    const tl_metric *metric;
    float *values; /* of the metrics */
} tl_network;

int tl_fit_network(const tl_network *net, const tl_fit *how);
/* Mean loss and metrics of samples one behind the other, as they come; a rest that is no sample is left out. */
int tl_evaluate(const tl_network *net, const tl_examples *from, float *loss);
/* The share of labels that have the highest of their scores, the first of equal ones; `apart` is how far the scores of
 * a label lie from each other. Labels that are no class do not count. */
float tl_accuracy(const float *scores, const int32_t *labels, uint32_t count, uint32_t classes, uint32_t apart);

/* A line about an epoch through tl_puts: "epoch 3: loss 0.41237, held out 0.39201, accuracy 0.88889". */
void tl_epoch_print(const tl_network *net, const tl_epoch *epoch);
void tl_put_decimal(float number); /* five places */
#ifdef __cplusplus
}
#endif
#endif
