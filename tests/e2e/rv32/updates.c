/* What tests/e2e/test_xpulp.py runs both ways of products of floats that move weights by their sums. */
#include "tl_hal.h"
#include "tl_matmul.h"

enum { CORES = 8, STACK = 1216, ELEMENTS = 1600, SCRATCH = 8192 };

typedef struct {
    uint8_t stacks[CORES * STACK] __attribute__((aligned(16)));
    float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];
    uint32_t scratch[SCRATCH / 4];
} l1_data;
TL_L1 static l1_data l1;
volatile int net_position;

void tl_matmul_update_f32(const tl_matmul_update *a);
void tl_matmul_update_panels_f32(const tl_matmul_update *a);
void tl_matmul_update_rows_f32(const tl_matmul_update *a);

static void fill(float *to, uint32_t state)
{
    for (int i = 0; i < ELEMENTS; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

/* In place, of weights in rows further apart than long. */
static void update_of(tl_fn kernel, int m, int n, int k, int a_m, int a_k, int b_n, int b_k)
{
    static const float rate = 0.0137f;
    tl_matmul p = {.a = l1.a, .b = l1.b, .c = l1.c, .init = l1.c, .batch = 1, .m = m, .n = n, .k = k};
    p.a_m = a_m, p.a_k = a_k, p.b_n = b_n, p.b_k = b_k;
    p.c_m = p.i_m = n + 3, p.c_n = p.i_n = 1, p.scratch = l1.scratch;
    const tl_matmul_update u = {.product = p, .rate = &rate};
    fill(l1.a, 1), fill(l1.b, 2), fill(l1.c, 3);
    tl_cluster_run(CORES, kernel, (void *)(uintptr_t)&u, l1.stacks, STACK);
    tl_record(l1.c, sizeof l1.c);
}

/* Of rows and columns that lie side by side. */
static void update(tl_fn kernel, int m, int n, int k)
{
    update_of(kernel, m, n, k, 1, m, 1, n);
}

/* Of terms that do. */
static void update_rows(int m, int n, int k)
{
    update_of((tl_fn)tl_matmul_update_rows_f32, m, n, k, k + 1, 1, k + 2, 1);
}

int main(void)
{
    tl_record_open();
    const tl_fn packed = (tl_fn)tl_matmul_update_f32, panels = (tl_fn)tl_matmul_update_panels_f32;
    update(packed, 17, 22, 8);
    update(packed, 33, 9, 3);
    update(packed, 8, 40, 32);
    update(panels, 8, 40, 32);
    update(panels, 36, 20, 3);
    update(panels, 4, 12, 1);
    update_rows(8, 40, 31);
    update_rows(52, 20, 9);
    update_rows(4, 12, 2);
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
