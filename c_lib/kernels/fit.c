/* Epochs, evaluation, early end: on the controller, but for its floats, in a fixed order, so that every machine gets
 * the same. */
#include "tl_fit.h"

/* Samples so far, on a core of the cluster. */
typedef struct {
    const tl_network *net;
    int metrics;  /* are counted, too */
    float loss;   /* of the sample */
    float sum;    /* then the mean */
    float lowest; /* mean so far */
    int lower;    /* is this one */
    int nan;
    uint32_t samples;
} tally;

static void add(void *arg)
{
    tally *t = arg;
    t->nan = t->loss != t->loss;
    t->sum += t->loss;
    for (int m = 0; m < t->metrics; m++)
        t->net->values[m] += t->net->metric[m].value();
    t->samples++;
}

static void divide(void *arg)
{
    tally *t = arg;
    t->sum /= (float)t->samples;
    for (int m = 0; m < t->metrics; m++)
        t->net->values[m] /= (float)t->samples;
    t->lower = t->sum < t->lowest;
}

/* A sample: the examples at these places of an order, or as they come. */
static int take(const tl_sample *sample, const tl_examples *from, const tl_shuffle *order, uint32_t first)
{
    for (uint32_t i = 0; i < sample->examples; i++) {
        const uint32_t number = order ? tl_shuffle_at(order, first + i) : first + i;
        const int fault = tl_examples_take(from, sample, number, i);
        if (fault)
            return fault;
    }
    return TL_DATA_FINE;
}

static const tl_sample *evaluated(const tl_network *net)
{
    return net->evaluated ? net->evaluated : net->sample;
}

static int evaluate(const tl_network *net, const tl_examples *from, tally *t)
{
    const uint32_t batch = evaluated(net)->examples, samples = from->count / batch;
    for (int m = 0; m < net->metrics; m++)
        net->values[m] = 0.0f;
    for (uint32_t s = 0; s < samples; s++) {
        const int fault = take(evaluated(net), from, 0, s * batch);
        if (fault)
            return fault;
        t->loss = net->evaluate();
        net->on_core(add, t);
    }
    net->on_core(divide, t);
    return TL_DATA_FINE;
}

int tl_evaluate(const tl_network *net, const tl_examples *from, float *loss)
{
    tally t = {.net = net, .metrics = net->metrics};
    const int fault = evaluate(net, from, &t);
    if (!fault)
        *loss = t.sum;
    return fault;
}

static int train(const tl_network *net, const tl_fit *how, uint32_t samples, tl_epoch *now)
{
    tl_shuffle order;
    tally t = {.net = net};
    tl_shuffle_begin(&order, how->train->count, how->seed, now->epoch - 1);
    for (uint32_t at = (uint32_t)net->steps() % samples; at < samples; at++) {
        const uint32_t step = (uint32_t)net->steps(), update = step / net->accumulate;
        if (how->steps && step >= how->steps)
            break;
        const int fault = take(net->sample, how->train, how->in_order ? 0 : &order, at * net->sample->examples);
        if (fault)
            return fault;
        t.loss = net->train(how->rates ? how->rates[update] : how->learning_rate,
                            how->momenta ? how->momenta[update] : how->momentum);
        net->on_core(add, &t);
        if (t.nan)
            return TL_DATA_NAN;
    }
    net->on_core(divide, &t);
    now->steps = t.samples;
    now->loss = t.sum;
    return TL_DATA_FINE;
}

/* Whether the schedule has a rate for every update: known before the first one, so that nothing learned is lost. */
static int scheduled(const tl_network *net, const tl_fit *how, uint32_t samples)
{
    const uint64_t all = (uint64_t)samples * how->epochs;
    const uint64_t planned = how->steps && how->steps < all ? how->steps : all;
    return !how->rates || planned <= (uint64_t)how->updates * net->accumulate;
}

int tl_fit_network(const tl_network *net, const tl_fit *how)
{
    const uint32_t batch = net->sample->examples, samples = how->train->count / batch;
    float best = __builtin_inff();
    uint32_t waited = 0;
    if (!samples || (how->held_out && how->held_out->count < evaluated(net)->examples))
        return TL_DATA_FEW;
    if (!scheduled(net, how, samples))
        return TL_DATA_RATES;
    for (;;) {
        const uint32_t step = (uint32_t)net->steps(), epoch = step / samples;
        if (epoch >= how->epochs || (how->steps && step >= how->steps) || (how->patience && waited >= how->patience))
            return TL_DATA_FINE;
        tl_epoch now = {.epoch = epoch + 1, .evaluated = how->held_out != 0, .metrics = net->values};
        tally t = {.net = net, .metrics = net->metrics, .lowest = best};
        int fault = train(net, how, samples, &now);
        if (!fault && how->held_out)
            fault = evaluate(net, how->held_out, &t);
        if (fault)
            return fault;
        now.held_out_loss = t.sum;
        now.best = t.lower;
        best = now.best ? t.sum : best;
        waited = now.best || !now.evaluated ? 0 : waited + 1;
        if (how->report)
            how->report(&now);
    }
}

float tl_accuracy(const float *scores, const int32_t *labels, uint32_t count, uint32_t classes, uint32_t apart)
{
    uint32_t right = 0, counted = 0;
    for (uint32_t i = 0; i < count; i++) {
        const float *of = scores + i / apart * apart * classes + i % apart;
        uint32_t best = 0;
        if ((uint32_t)labels[i] >= classes)
            continue;
        for (uint32_t c = 1; c < classes; c++)
            best = of[c * apart] > of[best * apart] ? c : best;
        right += best == (uint32_t)labels[i];
        counted++;
    }
    return counted ? (float)right / (float)counted : 0.0f;
}
