/* Examples: a header, then one behind the other. */
#include "tl_examples.h"
#include "tl_checksum.h"

enum { MAGIC = 0x53444c54, VERSION = 1 }; /* "TLDS" */

typedef struct {
    uint32_t magic, version, layout[2], bytes, count;
    uint32_t checksum; /* of all examples */
    uint32_t own;      /* of this header before it */
} header;

_Static_assert(sizeof(header) == TL_EXAMPLES_HEADER, "no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the least byte comes first");

static int fault_of(const header *h, const tl_sample *sample)
{
    if (h->magic != MAGIC)
        return TL_DATA_NONE;
    if (h->version != VERSION)
        return TL_DATA_VERSION;
    if (h->own != tl_checksum(0, h, offsetof(header, own)))
        return TL_DATA_DAMAGED;
    if (h->layout[0] != sample->layout[0] || h->layout[1] != sample->layout[1] || h->bytes != sample->bytes)
        return TL_DATA_NETWORK; /* PULP-SDK's string.h has no memcmp */
    if (h->count > (INT32_MAX - TL_EXAMPLES_HEADER) / h->bytes)
        return TL_DATA_DAMAGED;
    return h->count < sample->examples ? TL_DATA_FEW : TL_DATA_FINE;
}

int tl_examples_open(tl_examples *from, const tl_sample *sample)
{
    header h;
    uint8_t some[256];
    if (from->read(from, 0, &h, sizeof h))
        return TL_DATA_DAMAGED;
    const int fault = fault_of(&h, sample);
    if (fault)
        return fault;
    const uint32_t end = sizeof h + h.count * h.bytes;
    uint32_t sum = 0;
    for (uint32_t at = sizeof h; at < end; at += sizeof some) {
        const uint32_t bytes = end - at < sizeof some ? end - at : sizeof some;
        if (from->read(from, at, some, bytes))
            return TL_DATA_DAMAGED;
        sum = tl_checksum(sum, some, bytes);
    }
    from->count = h.count;
    return sum == h.checksum ? TL_DATA_FINE : TL_DATA_DAMAGED;
}

/* Whether all labels of an example are classes. */
static int labelled(const tl_field *field, const int32_t *labels)
{
    for (uint32_t i = 0; i < field->bytes / sizeof *labels; i++)
        if ((uint32_t)labels[i] >= field->classes && labels[i] != field->ignored)
            return 0;
    return 1;
}

int tl_examples_take(const tl_examples *from, const tl_sample *sample, uint32_t number, uint32_t place)
{
    uint32_t at = TL_EXAMPLES_HEADER + number * sample->bytes;
    for (int i = 0; i < sample->count; i++) {
        const tl_field *field = &sample->fields[i];
        void *to = (uint8_t *)field->at + place * field->bytes;
        if (from->read(from, at, to, field->bytes))
            return TL_DATA_STORE;
        if (field->classes && !labelled(field, to))
            return TL_DATA_LABEL;
        at += field->bytes;
    }
    return TL_DATA_FINE;
}

const char *tl_data_words(int fault)
{
    switch (fault) {
    case TL_DATA_FINE:
        return "fine";
    case TL_DATA_NONE:
        return "no examples are there";
    case TL_DATA_VERSION:
        return "written by another version of trainlib-deploy";
    case TL_DATA_NETWORK:
        return "written for inputs and targets of other shapes or types";
    case TL_DATA_DAMAGED:
        return "damaged";
    case TL_DATA_LABEL:
        return "a label is no class";
    case TL_DATA_FEW:
        return "fewer examples than a step takes";
    case TL_DATA_NAN:
        return "the loss is not a number";
    case TL_DATA_RATES:
        return "the schedule of learning rates ends before the training: deploy with --updates N for all of it";
    case TL_DATA_ABSENT:
        return "there is no such file, seen from the project's folder";
    default:
        return "reading failed";
    }
}
