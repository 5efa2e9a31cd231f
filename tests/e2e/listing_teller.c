/* Behind net.c, whose arenas and tables it sees: where things lie, what is called, what moves. `regions` and the
 * kernels are the test's. */
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *level;
    const void *memory;
    size_t bytes;
    int begins; /* offset of its first byte in the level */
} region;
extern const region regions[];
extern const int region_count;

static int told;

void tell_operation(int position)
{
    told = position;
    printf("operation %d\n", position);
}

void tell_next(void)
{
    tell_operation(told + 1);
}

static void tell_pointer(const void *pointer)
{
    const uintptr_t at = (uintptr_t)pointer;
    for (int i = 0; i < region_count; i++) {
        const uintptr_t first = (uintptr_t)regions[i].memory;
        if (at >= first && at < first + regions[i].bytes) {
            printf(" %s+%d", regions[i].level, regions[i].begins + (int)(at - first));
            return;
        }
    }
    printf(pointer ? " elsewhere" : " nowhere");
}

static void tell_number(int number)
{
    printf(" %d", number);
}

static void tell_transfer(const char *way, const void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch)
{
    printf("%s", way);
    tell_pointer(l2);
    tell_pointer(l1);
    tell_number((int)row_bytes);
    tell_number((int)rows);
    tell_number(rows > 1 ? (int)pitch : 0);
    puts("");
}

void tl_dma_in(tl_dma_t *job, void *l1, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    (void)job;
    tell_transfer("in", l2, l1, row_bytes, rows, pitch);
}

void tl_dma_out(tl_dma_t *job, void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch)
{
    (void)job;
    tell_transfer("out", l2, l1, row_bytes, rows, pitch);
}

void tl_dma_wait(tl_dma_t *job)
{
    (void)job;
}

#ifdef ORDERS_STORED
/* Of what lies behind L2: orders, from where they begin in its file. */
void tl_far_read(void *to, tl_far from, size_t bytes)
{
    FILE *file = fopen(FAR_FILE, "rb");
    if (!file || fseek(file, ORDERS_STORED + (long)from - OFFSET_all_orders, SEEK_SET) ||
        fread(to, 1, bytes, file) != bytes)
        abort();
    fclose(file);
}
#endif

static void tell_places(void);

int main(void)
{
    tell_places();
    tl_cluster_run(1, step_on_core, 0, 0, 0);
    return 0;
}
