/* Depthwise convolutions of halves that are made of floats, and products of vectors that are widened, which
 * test_xpulp.py runs here and on Spike. */
#include "floats.h"
#include "shapes.h"
#include "tl_matmul.h"

void tl_conv2d_fw_depthwise_5_f16(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_5_s2_f16(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_7_f16(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_7_s2_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_5_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_7_f16(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_s2_f16(const tl_conv2d *a);
void tl_matmul_widened_f16(const tl_matmul *a);
void tl_matmul_widened_any_f16(const tl_matmul *a);
void tl_matmul_split_widened_f16(const tl_matmul *a);

static tl_half given[ELEMENTS];
static float weights[ELEMENTS];

static void depthwise(int groups, int size, int kernel, int stride, int pad)
{
    tl_conv2d p = convolved(groups, 1, 1, size, kernel, stride, pad);
    tl_fn fw = stride == 2 ? (tl_fn)tl_conv2d_fw_depthwise_5_s2_f16 : (tl_fn)tl_conv2d_fw_depthwise_5_f16;
    tl_fn bw = stride == 2 ? (tl_fn)tl_conv2d_bw_x_depthwise_s2_f16 : (tl_fn)tl_conv2d_bw_x_depthwise_5_f16;
    if (kernel == 7) {
        fw = stride == 2 ? (tl_fn)tl_conv2d_fw_depthwise_7_s2_f16 : (tl_fn)tl_conv2d_fw_depthwise_7_f16;
        bw = stride == 2 ? bw : (tl_fn)tl_conv2d_bw_x_depthwise_7_f16;
    }
    p.w = weights, p.floats = p.halves = 1, p.scratch = l1.scratch, p.bias = size % 3 ? l1.init : 0;
    p.x_f16 = given, p.y_f16 = (tl_half *)l1.c;
    run(fw, &p);
    p.y_f16 = given, p.x_f16 = (tl_half *)l1.c;
    run(bw, &p);
    p.w_f16 = given + 7, p.floats = 0;
    run(bw, &p);
}

/* Rows lie one behind the other, or side by side. */
static void product(tl_fn kernel, int m, int k, int side_by_side, int halves)
{
    tl_matmul p = {
        .a = weights, .b_f16 = given + 3, .batch = 1, .m = m, .n = 1, .k = k, .b_k = 1, .c_m = 1, .floats = 1};
    p.a_m = side_by_side ? 1 : k, p.a_k = side_by_side ? m : 1;
    p.c = l1.c, p.init = l1.init, p.i_m = 1, p.scratch = l1.scratch;
    run(kernel, &p);
    p.init = 0, p.accumulate = 1;
    run(kernel, &p);
    p.accumulate = 0, p.halves = 1, p.c_f16 = (tl_half *)l1.c;
    if (halves)
        run(kernel, &p);
}

int main(void)
{
    tl_record_open();
    fill(weights, ELEMENTS, 5);
    for (int i = 0; i < ELEMENTS; i++) {
        weights[i] *= 0x1p-12f; /* within the range of halves */
        given[i] = tl_to_half(weights[i]);
    }
    for (int kernel = 5; kernel <= 7; kernel += 2)
        for (int stride = 1; stride <= 2; stride++)
            for (int size = 5; size <= 13; size++)
                depthwise(size < 8 ? 11 : 3, size, kernel, stride, size % 4);
    for (int apart = 0; apart <= 1; apart++) {
        product((tl_fn)tl_matmul_widened_f16, 31, 37, apart, 1),
            product((tl_fn)tl_matmul_widened_f16, 83, 13, apart, 1);
        product((tl_fn)tl_matmul_widened_f16, 9, 83, apart, 1),
            product((tl_fn)tl_matmul_widened_any_f16, 19, 67, apart, 1);
    }
    product((tl_fn)tl_matmul_split_widened_f16, 6, 140, 0, 0),
        product((tl_fn)tl_matmul_split_widened_f16, 11, 83, 0, 0);
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
