/* The emulated cluster on Spike, at PULP's own addresses: console, end and files through system calls that Spike
 * carries out on the machine that runs it, and the count of every core's own instructions. */
#if defined(TL_HAL_RV32) && defined(TL_SPIKE)
#include "rv32_machine.h"
#include "rv32_marks.h"

enum { CALL_OPEN = 56, CALL_CLOSE = 57, CALL_SEEK = 62, CALL_READ = 63, CALL_WRITE = 64, CALL_ARGUMENTS = 2011 };
enum { WRITE_NEW_FILE = 0x241, READABLE = 0644, HERE = -100, FROM_THE_BEGINNING = 0 }; /* of Linux */

const uint32_t tl_rv32_devices[2] = {(uint32_t)WAKE, (uint32_t)WAKE}; /* none besides */
extern const uint32_t tl_rv32_around_a_mark[2]; /* bytes of boot code; an instruction there has four */
volatile uint64_t tohost, fromhost;             /* Spike finds them by their names */
static uint32_t left[HARTS];                    /* the core's counter when it came back from its last mark */

/* ---- system calls ---- */

static int32_t call(uint32_t number, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e)
{
    static volatile uint64_t block[8] __attribute__((aligned(64)));
    block[0] = number, block[1] = a, block[2] = b, block[3] = c, block[4] = d, block[5] = e;
    FENCE();
    tohost = (uint32_t)block;
    while (!fromhost)
        continue;
    fromhost = 0;
    FENCE();
    return (int32_t)block[0];
}

static uint32_t length_of(const char *text)
{
    uint32_t length = 0;
    while (text[length])
        length++;
    return length;
}

void tl_puts(const char *text)
{
    call(CALL_WRITE, 1, (uint32_t)text, length_of(text), 0, 0);
}

int tl_file_open(const char *name, int writing)
{
    const uint32_t length = length_of(name) + 1;
    return call(CALL_OPEN, (uint32_t)HERE, (uint32_t)name, length, writing ? WRITE_NEW_FILE : 0, READABLE);
}

int tl_file_seek(int file, uint32_t at)
{
    return call(CALL_SEEK, (uint32_t)file, at, FROM_THE_BEGINNING, 0, 0) != (int32_t)at;
}

int tl_file_read(int file, void *data, size_t bytes)
{
    return call(CALL_READ, (uint32_t)file, (uint32_t)data, bytes, 0, 0) != (int32_t)bytes;
}

int tl_file_write(int file, const void *data, size_t bytes)
{
    return call(CALL_WRITE, (uint32_t)file, (uint32_t)data, bytes, 0, 0) != (int32_t)bytes;
}

void tl_file_close(int file)
{
    if (call(CALL_CLOSE, (uint32_t)file, 0, 0, 0, 0))
        tl_rv32_fail("closing a file");
}

/* ---- counts ---- */

/* In decimals, divided 16 bits at a time: there is no library to divide 64 at once. */
static void put_count(uint64_t value)
{
    char text[] = "00000000000000000000", *first = text;
    for (int at = (int)sizeof text - 2; at >= 0; at--) {
        uint32_t rest = 0;
        for (int shift = 48; shift >= 0; shift -= 16) {
            const uint32_t part = rest << 16 | (uint32_t)(value >> shift & 0xffff);
            value = (value & ~((uint64_t)0xffff << shift)) | (uint64_t)(part / 10) << shift;
            rest = part % 10;
        }
        text[at] = (char)('0' + rest);
    }
    while (*first == '0' && first[1])
        first++;
    tl_puts("=");
    tl_puts(first);
}

static void put_counts(void)
{
    tl_puts("COUNTS instructions critical");
    put_count(tl_rv32_counted.critical);
    for (uint32_t i = 1; i < HARTS; i++) {
        if (!tl_rv32_counted.harts[i].instructions)
            continue;
        tl_puts(" core");
        tl_rv32_put_number(i - 1);
        put_count(tl_rv32_counted.harts[i].instructions);
    }
    for (uint32_t i = 0; i < MOST_OPERATIONS; i++) {
        if (!tl_rv32_counted.operations[i])
            continue;
        tl_puts("\nCOUNTS operation ");
        tl_rv32_put_number(i);
        put_count(tl_rv32_counted.operations[i]);
    }
    tl_puts("\n");
}

/* From the boot code: a core met a mark with its counter at `now`. Where to leave the counter on the way back. */
__attribute__((used)) uint32_t *tl_rv32_marked(uint32_t instruction, uint32_t now, uint32_t hart)
{
    const uint32_t around = (tl_rv32_around_a_mark[0] + tl_rv32_around_a_mark[1]) / 4;
    count(hart, now - left[hart] - around);
    mark(hart, instruction >> 12);
    return &left[hart];
}

void tl_rv32_stop(int code)
{
    end_phase();
    put_counts();
    tohost = (uint32_t)code << 1 | 1;
    for (;;)
        __asm__ volatile("wfi");
}

/* The second word of the command line. */
const char *tl_rv32_record_named(char *line, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)line; /* count, addresses of the words, 0 */
    if (call(CALL_ARGUMENTS, (uint32_t)line, bytes, 0, 0, 0) || words[0] < 2)
        return 0;
    return (const char *)(uint32_t)words[2];
}
#endif
