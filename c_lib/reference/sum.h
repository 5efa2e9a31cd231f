/* The order of summation that docs/kernels.md prescribes: chains of 64 fused multiply-adds from zero, added up block by
 * block. */
#ifndef SUM_H
#define SUM_H

typedef struct {
    float total, chain;
    int terms;
} sum;

static inline void add(sum *s, float a, float b)
{
    s->chain = __builtin_fmaf(a, b, s->chain);
    if (++s->terms % 64 == 0)
        s->total += s->chain, s->chain = 0;
}

static inline float end(const sum *s)
{
    return s->total + s->chain;
}
#endif
