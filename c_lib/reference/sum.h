/* The order of summation that docs/kernels.md prescribes: chains of 64 fused multiply-adds from zero, added up block by
 * block; of halves, one chain of pairs (tl_pair.h). A source is compiled for halves by one that defines
 * REFERENCE_F16. */
#ifndef SUM_H
#define SUM_H
#include "tl_pair.h"

#ifdef REFERENCE_F16
#define REFERENCE(name) reference_##name##_f16
#define READ(name) name##_f16
typedef tl_half element;
#else
#define REFERENCE(name) reference_##name
#define READ(name) name
typedef float element;
#endif

#ifdef REFERENCE_F16
typedef struct {
    float total;
    int terms;
    element a, b; /* the first ones of a pair */
} sum;

static inline void add(sum *s, element a, element b)
{
    if (s->terms++ % 2)
        s->total = tl_pair_add(s->total, tl_pair_of(s->a, a), tl_pair_of(s->b, b));
    s->a = a, s->b = b;
}

static inline void next_block(sum *s)
{
    (void)s; /* one chain */
}

static inline float end(const sum *s)
{
    return s->terms % 2 ? tl_pair_add(s->total, s->a, s->b) : s->total;
}
#else
typedef struct {
    float total, chain;
    int terms;
} sum;

static inline void next_block(sum *s)
{
    s->total += s->chain, s->chain = 0, s->terms = 0;
}

static inline void add(sum *s, element a, element b)
{
    s->chain = __builtin_fmaf(a, b, s->chain);
    if (++s->terms == 64)
        next_block(s);
}

static inline float end(const sum *s)
{
    return s->total + s->chain;
}
#endif
#endif
