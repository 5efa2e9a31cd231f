/* A program's own judgement, from sketches of the reference: golden/sketch.py says what they are. */
#ifndef TL_CHECK_H
#define TL_CHECK_H
#include <stddef.h>
#include <stdint.h>

enum { TL_SUMS = 8 };

typedef struct {
    int64_t sums[TL_SUMS]; /* of the reference times 2^exponent */
    float limit;           /* of the sum of squared differences; negative: not checked */
    int exponent;
} tl_sketch;

int tl_is_judged(const tl_sketch *reference);

/* 1 when floats, or halves, which have a `size` of 2 bytes each, agree, 0 when they do not; NaN and infinity
 * never do. */
int tl_agrees(const void *data, size_t bytes, size_t size, const tl_sketch *reference);

#if defined(TL_FAR)
/* Of what lies behind L2; and what tl_record does. */
int tl_agrees_far(uint32_t at, size_t bytes, size_t size, const tl_sketch *reference);
void tl_record_far(uint32_t at, size_t bytes);
#endif
#endif
