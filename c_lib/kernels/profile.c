/* The table of a profile; the emulated cluster counts core by core from outside instead. Floats stand in for 64-bit
 * divisions, which some of the compilers leave to a library. */
#if !defined(TL_HAL_RV32)
#include "tl_profile.h"

enum { WIDTH = 14 };

static const char *const counter_names[TL_COUNTERS] = TL_COUNTER_NAMES;
static tl_cost last;
TL_L1 uint32_t tl_profile_waits, tl_profile_since;

void tl_profile_begin(void)
{
    last.moved = tl_dma_bytes();
    tl_profile_waits = 0;
    tl_counters(last.counts);
}

void tl_profile_end(tl_cost *cost, uint32_t cycles)
{
    tl_cost now;
    tl_counters(now.counts);
    for (int i = 1; i < TL_COUNTERS; i++)
        cost->counts[i] = now.counts[i] - last.counts[i];
    cost->counts[0] = cycles - tl_profile_since;
    cost->waited = tl_profile_waits;
    now.moved = tl_dma_bytes();
    cost->moved = now.moved - last.moved;
    tl_profile_begin(); /* not the cost of counting */
}

static void put_right(const char *text)
{
    int length = 0;
    while (text[length])
        length++;
    while (length++ < WIDTH)
        tl_puts(" ");
    tl_puts(text);
}

/* `number` with its last `decimals` digits behind a point. */
static void put_number(uint32_t number, int decimals)
{
    char text[16], *at = text + sizeof text - 1;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
        if (--decimals == 0)
            *--at = '.';
    } while (number || decimals >= 0);
    put_right(at);
}

static uint32_t rounded(float x)
{
    return x < 4.0e9f ? (uint32_t)(x + 0.5f) : 4000000000u;
}

static void put_line(const char *name, const tl_cost *cost, float macs, float all)
{
    const float spent = (float)cost->counts[0];
    for (int i = 0; i < TL_COUNTERS; i++)
        put_number(cost->counts[i], 0);
    put_number(cost->moved, 0);
    put_number(cost->waited, 0);
    put_number(all > 0.0f ? rounded(1000.0f * spent / all) : 0, 1);
    put_number(rounded(macs), 0);
    put_number(spent > 0.0f ? rounded(1000.0f * macs / spent) : 0, 3);
    tl_puts("  ");
    tl_puts(name);
    tl_puts("\n");
}

static void put_header(void)
{
    for (int i = 0; i < TL_COUNTERS; i++)
        put_right(counter_names[i]);
    put_right("bytes moved");
    put_right("for transfers");
    put_right("share %");
    put_right("MACs");
    put_right("MACs each");
    tl_puts("  operation (");
    tl_puts(counter_names[0]);
    tl_puts(" of the cluster, the rest of core 0; last step)\n");
}

/* Of the time that the transfers take by themselves, where the engine's speed is known. */
static void put_hidden(const tl_cost *sum)
{
#ifdef TL_DMA_BYTES_PER_CYCLE
    const float alone = (float)sum->moved / TL_DMA_BYTES_PER_CYCLE;
    if (alone <= 0.0f)
        return;
    const float hidden = 1.0f - (float)sum->waited / alone;
    put_number(rounded(1000.0f * (hidden > 0.0f ? hidden : 0.0f)), 1);
    tl_puts(" % of the transfers' cycles hidden behind work\n");
#else
    (void)sum;
#endif
}

void tl_profile_print(const tl_operation *operations, const tl_cost *costs, int count)
{
    tl_cost sum = {{0}, 0, 0};
    float macs = 0.0f;
    for (int k = 0; k < count; k++) {
        macs += (float)operations[k].macs;
        for (int i = 0; i < TL_COUNTERS; i++)
            sum.counts[i] += costs[k].counts[i];
        sum.moved += costs[k].moved;
        sum.waited += costs[k].waited;
    }
    const float all = (float)sum.counts[0];
    put_header();
    for (int k = 0; k < count; k++)
        put_line(operations[k].name, &costs[k], (float)operations[k].macs, all);
    put_line("all operations", &sum, macs, all);
    put_hidden(&sum);
}
#endif
