/* What tests/e2e/test_xpulp.py runs on the host, in portable C, and on Spike, with PULP's instructions: every row for
 * halves, over shapes that leave edges, and conversions. */
#include "shapes.h"
#include "tl_matmul.h"
#include "tl_pair.h"
#include "tl_pool.h"
#include <string.h>

enum { CORES = 8, STACK = 1216, ELEMENTS = 2600, RESULTS = 2400, SCRATCH = 20480 };

typedef struct {
    uint8_t stacks[CORES * STACK] __attribute__((aligned(16)));
    tl_half a[ELEMENTS], b[ELEMENTS];
    float c[RESULTS], init[RESULTS];
    uint32_t scratch[SCRATCH / 4];
    uint8_t taps[RESULTS];
} l1_data;
TL_L1 static l1_data l1;
volatile int net_position;

void tl_matmul_whole_f16(const tl_matmul *a);
void tl_matmul_f16(const tl_matmul *a);
void tl_matmul_vectors_f16(const tl_matmul *a);
void tl_matmul_update_f16(const tl_matmul_update *a);
void tl_conv2d_fw_f16(const tl_conv2d *a);
void tl_conv2d_fw_planes_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_planes_f16(const tl_conv2d *a);
void tl_conv2d_fw_winograd_f16(const tl_conv2d *a);
void tl_conv2d_fw_winograd_whole_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_winograd_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_winograd_whole_f16(const tl_conv2d *a);
void tl_conv2d_bw_w_winograd_f16(const tl_conv2d *a);
void tl_conv2d_bw_w_f16(const tl_conv2d *a);
void tl_conv2d_bw_w_3_f16(const tl_conv2d *a);
void tl_conv2d_fw_pointwise_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_pointwise_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_apart_f16(const tl_conv2d *a);
void tl_conv2d_bw_w_pointwise_f16(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_3x3_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_3x3_f16(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_3x3_f16(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_3x3_s2_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_3x3_s2_f16(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_3x3_s2_f16(const tl_conv2d *a);
void tl_maxpool2d_bw_near_f16(const tl_pool2d *a);

/* Finite halves, subnormal ones among them. */
static tl_half next_half(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    const uint32_t r = *state >> 8;
    return (tl_half)((r & 0x83ffu) | (r >> 12 & 15u) << 10);
}

static void fill(void)
{
    uint32_t state = 1;
    for (int i = 0; i < ELEMENTS; i++)
        l1.a[i] = next_half(&state), l1.b[i] = next_half(&state);
    for (int i = 0; i < RESULTS; i++)
        l1.c[i] = l1.init[i] = (float)(i * 7 % 31 - 15) * 0.37f;
}

static void run(tl_fn kernel, const void *argument)
{
    fill();
    tl_cluster_run(CORES, kernel, (void *)(uintptr_t)argument, l1.stacks, STACK);
    tl_record(l1.c, sizeof l1.c);
}

static void product(tl_fn kernel, int batch, int m, int n, int k, int across, int accumulate)
{
    tl_matmul p = {.a_f16 = l1.a, .b_f16 = l1.b, .c = l1.c, .batch = batch, .m = m, .n = n, .k = k};
    p.a_b = m * k, p.a_m = across ? 1 : k, p.a_k = across ? m : 1;
    p.b_b = k * n, p.b_n = across ? k : 1, p.b_k = across ? 1 : n;
    p.c_b = m * n, p.c_m = n, p.c_n = 1, p.accumulate = accumulate, p.scratch = l1.scratch;
    if (!across)
        p.init = l1.init, p.i_n = 1;
    run(kernel, &p);
    p.c_f16 = (tl_half *)l1.c, p.halves = 1, p.accumulate = 0;
    run(kernel, &p);
    if (n > 1)
        p.b = l1.init, p.floats = 2, run(kernel, &p);
}

/* In place, of weights in rows further apart than long, by halves and by floats on the right. */
static void update(int m, int n, int k)
{
    static const float rate = 0.0137f;
    tl_matmul p = {.a_f16 = l1.a, .b_f16 = l1.b, .c = l1.c, .init = l1.c, .batch = 1, .m = m, .n = n, .k = k};
    p.a_m = 1, p.a_k = m, p.b_n = 1, p.b_k = n, p.c_m = p.i_m = n + 3, p.c_n = p.i_n = 1, p.scratch = l1.scratch;
    tl_matmul_update u = {.product = p, .rate = &rate};
    run((tl_fn)tl_matmul_update_f16, &u);
    u.product.b = l1.init, u.product.floats = 2;
    run((tl_fn)tl_matmul_update_f16, &u);
}

/* By Winograd's algorithm, with all channels that are summed at a time and with some. */
static void in_tiles(tl_fn kernel, tl_fn whole, tl_conv2d p, int rows, int chans)
{
    p.packed_rows = (rows + 3) / 4 * 4, p.chans = chans, p.tiles = 8;
    run(kernel, &p);
    run(whole, &p);
    p.packed_rows = 4, p.chans = 2, p.tiles = 4;
    run(kernel, &p);
    run(whole, &p);
}

static void convolution(int groups, int ci, int co, int size, int kernel, int stride, int pad)
{
    tl_conv2d p = convolved(groups, ci, co, size, kernel, stride, pad);
    p.scratch = l1.scratch;
    p.x_f16 = l1.a, p.w_f16 = l1.b, p.y = l1.c, p.bias = l1.init;
    run((tl_fn)tl_conv2d_fw_f16, &p);
    if (kernel == 3)
        run((tl_fn)tl_conv2d_fw_planes_f16, &p);
    tl_conv2d halves = p;
    halves.w = l1.init, halves.floats = 1, halves.y_f16 = (tl_half *)l1.c, halves.halves = 1;
    run((tl_fn)tl_conv2d_fw_f16, &halves);
    if (kernel == 3)
        run((tl_fn)tl_conv2d_fw_planes_f16, &halves);
    if (kernel == 3 && stride == 1) {
        in_tiles((tl_fn)tl_conv2d_fw_winograd_f16, (tl_fn)tl_conv2d_fw_winograd_whole_f16, p, co, ci);
        in_tiles((tl_fn)tl_conv2d_fw_winograd_f16, (tl_fn)tl_conv2d_fw_winograd_whole_f16, halves, co, ci);
    }
    p.y_f16 = l1.a, p.x = l1.c, p.bias = NULL;
    run((tl_fn)tl_conv2d_bw_x_f16, &p);
    if (kernel == 3) {
        run((tl_fn)tl_conv2d_bw_x_planes_f16, &p);
        tl_conv2d one = p; /* whose classes share planes where the stride is 2 */
        one.n = one.groups = 1, one.w = l1.init, one.floats = 1, one.x_f16 = (tl_half *)l1.c, one.halves = 1;
        run((tl_fn)tl_conv2d_bw_x_planes_f16, &one);
    }
    if (kernel == 1 && stride > 1) {
        tl_conv2d apart = p;
        apart.w = l1.init, apart.floats = 1, apart.x_f16 = (tl_half *)l1.c, apart.halves = 1;
        run((tl_fn)tl_conv2d_bw_x_apart_f16, &apart);
    }
    if (kernel == 3 && stride == 1)
        in_tiles((tl_fn)tl_conv2d_bw_x_winograd_f16, (tl_fn)tl_conv2d_bw_x_winograd_whole_f16, p, ci, co);
    p.x_f16 = l1.b, p.w = l1.c, p.accumulate = 1;
    run((tl_fn)tl_conv2d_bw_w_f16, &p);
    if (kernel == 3 && p.wo % 2 == 0)
        run((tl_fn)tl_conv2d_bw_w_3_f16, &p);
    if (kernel == 3 && stride == 1) {
        p.packed_rows = (co + 3) / 4 * 4, p.chans = (ci + 3) / 4 * 4, p.tiles = 16;
        run((tl_fn)tl_conv2d_bw_w_winograd_f16, &p);
        p.packed_rows = 4, p.chans = 4, p.tiles = 4, p.accumulate = 0;
        run((tl_fn)tl_conv2d_bw_w_winograd_f16, &p);
    }
}

/* By one tap, on a row of pixels. */
static void pointwise(int groups, int ci, int co, int pixels)
{
    tl_conv2d p = {.n = 2, .groups = groups, .ci = ci, .co = co, .h = 1, .wd = pixels, .ho = 1, .wo = pixels};
    p.kh = p.kw = p.stride_h = p.stride_w = p.dil_h = p.dil_w = 1;
    p.xp = (tl_pitch){groups * ci * pixels, pixels, pixels}, p.yp = (tl_pitch){groups * co * pixels, pixels, pixels};
    p.w_co = ci, p.w_ci = 1, p.scratch = l1.scratch;
    p.x_f16 = l1.a, p.w_f16 = l1.b, p.y = l1.c, p.bias = l1.init;
    run((tl_fn)tl_conv2d_fw_pointwise_f16, &p);
    tl_conv2d halves = p;
    halves.w = l1.init, halves.floats = 1, halves.y_f16 = (tl_half *)l1.c, halves.halves = 1, halves.packed_rows = 4;
    run((tl_fn)tl_conv2d_fw_pointwise_f16, &halves);
    p.y_f16 = l1.a, p.x = l1.c, p.bias = NULL;
    run((tl_fn)tl_conv2d_bw_x_pointwise_f16, &p);
    p.x_f16 = l1.b, p.w = l1.c;
    run((tl_fn)tl_conv2d_bw_w_pointwise_f16, &p);
}

static void depthwise(int groups, int size, int stride, int pad)
{
    const tl_fn kernels[2][3] = {{(tl_fn)tl_conv2d_fw_depthwise_3x3_f16, (tl_fn)tl_conv2d_bw_x_depthwise_3x3_f16,
                                  (tl_fn)tl_conv2d_bw_w_depthwise_3x3_f16},
                                 {(tl_fn)tl_conv2d_fw_depthwise_3x3_s2_f16, (tl_fn)tl_conv2d_bw_x_depthwise_3x3_s2_f16,
                                  (tl_fn)tl_conv2d_bw_w_depthwise_3x3_s2_f16}};
    const tl_fn *of = kernels[stride - 1];
    tl_conv2d p = convolved(groups, 1, 1, size, 3, stride, pad);
    p.scratch = l1.scratch;
    p.x_f16 = l1.a, p.w_f16 = l1.b, p.y = l1.c, p.bias = l1.init;
    run(of[0], &p);
    tl_conv2d halves = p;
    halves.w = l1.init, halves.floats = 1, halves.y_f16 = (tl_half *)l1.c, halves.halves = 1;
    run(of[0], &halves);
    p.y_f16 = l1.a, p.x = l1.c, p.bias = NULL;
    run(of[1], &p);
    halves = p;
    halves.w = l1.init, halves.floats = 1, halves.x_f16 = (tl_half *)l1.c, halves.halves = 1;
    run(of[1], &halves);
    p.x_f16 = l1.b, p.w = l1.c, p.accumulate = 1;
    run(of[2], &p);
}

/* Square planes whose windows were won by any of their taps. */
static void maxima(int planes, int size, int kernel, int stride, int pad)
{
    const int out = (size + 2 * pad - kernel) / stride + 1;
    tl_pool2d p = {.planes = planes, .h = size, .wd = size, .ho = out, .wo = out, .kh = kernel, .kw = kernel};
    p.stride_h = p.stride_w = stride, p.pad_h = p.pad_w = pad, p.dil_h = p.dil_w = 1, p.tap_bytes = 1;
    p.xp = (tl_pool_pitch){size * size, size}, p.yp = p.tp = (tl_pool_pitch){out * out, out};
    p.x_f16 = (tl_half *)l1.c, p.y_f16 = l1.a, p.tap = l1.taps, p.scratch = (float *)l1.scratch;
    for (int i = 0; i < planes * out * out; i++)
        l1.taps[i] = (uint8_t)(i * 5 % 37 % (kernel * kernel));
    run((tl_fn)tl_maxpool2d_bw_near_f16, &p);
}

/* All halves become floats, and floats of all sizes halves, every other one of them in the middle between two. A NaN
 * may have other bits. */
static void conversions(void)
{
    uint32_t state = 2;
    for (uint32_t first = 0; first < 0x10000; first += 2048) {
        for (uint32_t i = 0; i < 2048; i++)
            l1.c[i] = ((first + i) & 0x7fff) > 0x7c00 ? 0.0f : tl_from_half((tl_half)(first + i));
        tl_record(l1.c, 2048 * sizeof(float));
    }
    for (int i = 0; i < ELEMENTS; i++) {
        union {
            uint32_t u;
            float f;
        } x = {state = state * 1664525u + 1013904223u};
        x.u = (x.u & 0x807fffffu) | (100u + (x.u >> 8) % 48u) << 23;
        if (i % 2)
            x.u = (x.u & 0xffffe000u) | 0x1000u;
        l1.a[i] = tl_to_half(x.f);
    }
    tl_record(l1.a, sizeof l1.a);
    for (int i = 0; i < ELEMENTS; i += 2) {
        const tl_pair both = tl_pair_rounded(tl_from_half(l1.a[i]) * 1.0003f, tl_from_half(l1.a[i + 1]) * 0.9997f);
        l1.a[i] = (tl_half)both, l1.a[i + 1] = (tl_half)(both >> 16);
    }
    tl_record(l1.a, sizeof l1.a);
}

int main(void)
{
    tl_record_open();
    conversions();
    product((tl_fn)tl_matmul_whole_f16, 1, 9, 14, 64, 0, 0);
    product((tl_fn)tl_matmul_whole_f16, 3, 7, 5, 11, 1, 1);
    product((tl_fn)tl_matmul_whole_f16, 2, 13, 8, 2, 0, 0);
    product((tl_fn)tl_matmul_whole_f16, 1, 5, 18, 127, 1, 0);
    product((tl_fn)tl_matmul_f16, 1, 8, 12, 64, 0, 0);
    product((tl_fn)tl_matmul_f16, 2, 9, 7, 129, 1, 1);
    product((tl_fn)tl_matmul_f16, 3, 5, 13, 31, 0, 1);
    product((tl_fn)tl_matmul_f16, 1, 16, 16, 70, 1, 0);
    product((tl_fn)tl_matmul_vectors_f16, 2, 11, 1, 77, 0, 0);
    update(17, 22, 8);
    update(33, 9, 3);
    update(8, 40, 33);
    convolution(1, 5, 7, 6, 3, 1, 1);
    convolution(1, 5, 5, 9, 3, 2, 1);
    convolution(1, 3, 5, 8, 3, 2, 1);
    convolution(2, 4, 6, 5, 1, 1, 0);
    convolution(1, 6, 5, 7, 1, 2, 0);
    convolution(1, 18, 8, 8, 3, 1, 1);
    convolution(1, 4, 5, 12, 3, 1, 1);
    convolution(1, 4, 4, 16, 3, 1, 1);
    convolution(1, 4, 3, 12, 3, 1, 0);
    convolution(1, 1, 5, 11, 5, 2, 2);
    depthwise(9, 7, 1, 1);
    depthwise(5, 6, 1, 0);
    depthwise(3, 5, 1, 1);
    depthwise(4, 6, 1, 1);
    depthwise(2, 1, 1, 1);
    depthwise(9, 12, 2, 1);
    depthwise(3, 11, 2, 0);
    depthwise(4, 7, 2, 1);
    depthwise(5, 6, 2, 2);
    depthwise(2, 1, 2, 1);
    maxima(11, 9, 3, 2, 1);
    maxima(5, 13, 3, 1, 1);
    maxima(7, 8, 2, 2, 0);
    maxima(3, 11, 2, 3, 0);
    pointwise(2, 7, 9, 14);
    pointwise(1, 20, 18, 22);
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
