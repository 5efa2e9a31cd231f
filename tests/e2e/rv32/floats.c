/* Products, convolutions and scans of floats, of shapes with edges: what test_xpulp.py runs here and on Spike. */
#include "floats.h"
#include "shapes.h"
#include "tl_loop.h"
#include "tl_matmul.h"
#include "tl_recurrent.h"
#include "tl_adaptive.h"
#include "tl_scaled.h"
#include "tl_silu.h"
#include "tl_winograd_tiles.h"
#include "tl_winograd_twos.h"

void tl_matmul_rows_x_panels_f32(const tl_matmul *a);
void tl_matmul_panels_x_panels_f32(const tl_matmul *a);
void tl_matmul_packed_x_packed_f32(const tl_matmul *a);
void tl_matmul_vector_f32(const tl_matmul *a);
void tl_matmul_vectors_columns_f32(const tl_matmul *a);
void tl_matmul_two_f32(const tl_matmul *a);
void tl_matmul_split_two_f32(const tl_matmul *a);
void tl_conv2d_fw_f32(const tl_conv2d *a);
void tl_conv2d_fw_3x3_block_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_pointwise_f32(const tl_conv2d *a);
void tl_rnn_fw_f32(const tl_recurrent *a);
void tl_rnn_bw_f32(const tl_recurrent *a);
void tl_gru_fw_f32(const tl_recurrent *a);
void tl_gru_bw_f32(const tl_recurrent *a);
void tl_lstm_fw_f32(const tl_recurrent *a);
void tl_lstm_bw_f32(const tl_recurrent *a);
void tl_conv2d_bw_w_3_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_3_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_3_twos_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_3_s2_twos_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_3x3_s2_f32(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_5_f32(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_5_s2_f32(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_7_f32(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_7_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_5_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_7_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_3x3_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_3x3_s2_pad1_f32(const tl_conv2d *a);
void tl_conv2d_fw_depthwise_3x3_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_depthwise_3x3_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_3x3_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_3x3_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_3x3_split_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_3x3_s2_split_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_5_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_5_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_7_f32(const tl_conv2d *a);
void tl_conv2d_bw_w_depthwise_7_s2_f32(const tl_conv2d *a);

/* Overwritten, with a start for each column or element, and added. Rows so far apart; 0: dense, 1: side by side. */
static void product(tl_fn kernel, int batch, int m, int n, int k, int apart)
{
    tl_matmul p = {.a = l1.a, .b = l1.b, .c = l1.c, .batch = batch, .m = m, .n = n, .k = k, .scratch = l1.scratch};
    p.a_b = m * k, p.a_m = apart ? apart : k, p.a_k = apart == 1 ? m : 1;
    p.b_b = k * n, p.b_k = n, p.b_n = 1, p.c_b = m * n, p.c_m = n, p.c_n = 1;
    run(kernel, &p);
    p.init = l1.init, p.i_n = 1;
    run(kernel, &p);
    p.i_m = n;
    run(kernel, &p);
    p.init = NULL, p.accumulate = 1;
    run(kernel, &p);
}

/* The kernels of a convolution's three directions. */
typedef struct {
    tl_fn forward, input, weight;
} kernels;

static void convolution(const kernels *of, int groups, int ci, int co, int size, int kernel, int stride, int pad)
{
    tl_conv2d p = convolved(groups, ci, co, size, kernel, stride, pad);
    p.scratch = l1.scratch;
    p.x = l1.a, p.w = l1.b, p.y = l1.c, p.bias = l1.init;
    run(of->forward, &p);
    p.y = l1.a, p.x = l1.c, p.bias = NULL;
    run(of->input, &p);
    p.x = l1.b, p.w = l1.c;
    run(of->weight, &p);
}

/* Sums of three panels over so many terms, on one core: new ones, and others that go on with these. */
static void chains(int terms)
{
    fill(l1.a, ELEMENTS, 5), fill(l1.b, ELEMENTS, 6);
    tl_winograd_chains(l1.a, 16 * terms, l1.b, l1.c, 3, terms, 4);
    tl_record(l1.c, sizeof l1.c);
    tl_winograd_chains_resumed(l1.a + 4, 16 * terms, l1.b + 4, l1.c, 3, terms);
    tl_record(l1.c, sizeof l1.c);
}

/* Eight elements of two fours of channels. */
static void eights(int terms)
{
    fill(l1.a, ELEMENTS, 5), fill(l1.b, ELEMENTS, 6);
    tl_winograd_twos_chains(l1.a, l1.b, l1.c, 2, terms);
    tl_record(l1.c, sizeof l1.c);
}

/* Of numbers that saturate no sigmoid; backward everything that forward would have left. */
static void scan(tl_fn forward, tl_fn backward, int gates, int batch, int hidden, int reverse)
{
    static float weights[3 * 66 * 66];
    const int steps = hidden > 64 ? 2 : 3, size = batch * hidden, states = (steps + 1) * size;
    tl_recurrent p = {.gates = l1.a, .h0 = l1.init, .c0 = l1.init + size, .w = weights, .bias = l1.init, .initial = 1};
    p.steps = steps, p.batch = batch, p.hidden = hidden, p.reverse = reverse;
    p.hs = l1.c, p.cs = gates == 4 ? p.hs + states : NULL, p.saved = gates > 1 ? p.hs + 2 * states : NULL;
    fill_all();
    for (int i = 0; i < ELEMENTS; i++)
        l1.a[i] *= 1e-6f, l1.init[i % RESULTS] *= i < RESULTS ? 1e-6f : 1.0f;
    fill(weights, gates * hidden * hidden, 2);
    for (int i = 0; i < gates * hidden * hidden; i++)
        weights[i] *= 1e-6f;
    run_as_it_is(forward, &p);
    p.hs = l1.a, p.cs = gates == 4 ? p.hs + states : NULL, p.saved = l1.a + 2 * states;
    p.dgates = l1.c, p.dhidden = gates == 3 ? l1.c + steps * gates * size : NULL;
    p.dh = l1.c + 2 * steps * gates * size, p.dc = gates == 4 ? p.dh + size : NULL;
    run_as_it_is(backward, &p);
}

/* Weight gradients of 1 x 1 kernels, read where both operands lie: of several tiles, of several blocks, and added. */
static void pointwise(void)
{
    static const kernels of = {(tl_fn)tl_conv2d_fw_f32, (tl_fn)tl_conv2d_bw_x_f32, (tl_fn)tl_conv2d_bw_w_pointwise_f32};
    convolution(&of, 1, 8, 12, 5, 1, 1, 0);
    convolution(&of, 2, 4, 8, 5, 1, 1, 0);
    convolution(&of, 1, 4, 4, 9, 1, 1, 0);
    tl_conv2d p = convolved(2, 4, 4, 6, 1, 1, 0);
    p.scratch = l1.scratch, p.x = l1.a, p.y = l1.b, p.w = l1.c, p.accumulate = 1;
    run((tl_fn)tl_conv2d_bw_w_pointwise_f32, &p);
}

/* Weight gradients by kernel rows, of whole and of missing channels. */
static void kernel_rows(void)
{
    const tl_fn kernels_of[] = {(tl_fn)tl_conv2d_bw_w_3_f32, (tl_fn)tl_conv2d_bw_w_3_twos_f32,
                                (tl_fn)tl_conv2d_bw_w_3_s2_f32, (tl_fn)tl_conv2d_bw_w_3_s2_twos_f32};
    static const int sizes[] = {8, 6, 16, 12};
    for (int i = 0; i < 4; i++) {
        const kernels of = {(tl_fn)tl_conv2d_fw_f32, (tl_fn)tl_conv2d_bw_x_f32, kernels_of[i]};
        convolution(&of, 1, 2, 4 + i, sizes[i], 3, 1 + i / 2, 1);
    }
}

/* Forward, 3 x 3, all terms in one block: with a bias, and added; without padding, and with two columns of it. */
static void blocks(void)
{
    static const kernels of = {(tl_fn)tl_conv2d_fw_3x3_block_f32, (tl_fn)tl_conv2d_bw_x_f32, (tl_fn)tl_conv2d_bw_w_f32};
    convolution(&of, 1, 3, 8, 8, 3, 1, 1);
    convolution(&of, 2, 1, 4, 10, 3, 1, 0);
    convolution(&of, 1, 7, 4, 6, 3, 1, 2);
    tl_conv2d p = convolved(1, 2, 8, 12, 3, 1, 1);
    p.scratch = l1.scratch, p.x = l1.a, p.w = l1.b, p.y = l1.c, p.accumulate = 1;
    run((tl_fn)tl_conv2d_fw_3x3_block_f32, &p);
}

/* Input gradients of stride 2, within an image and at its edge; blocks of 16, 32 and 64 channels, whole ones or not. */
static void squares(void)
{
    static const kernels of = {(tl_fn)tl_conv2d_fw_f32, (tl_fn)tl_conv2d_bw_x_3x3_s2_f32, (tl_fn)tl_conv2d_bw_w_f32};
    static const int channels[] = {1, 7, 16, 19, 32, 33, 19, 64, 83}, sizes[] = {8, 8, 8, 8, 8, 8, 9, 3, 3};
    for (int i = 0; i < 9; i++)
        convolution(&of, 1, i < 7 ? 3 : 1, channels[i], sizes[i], 3, 2, 1);
}

/* Of three taps; without, with one and with two columns of padding. */
static void depthwise_threes(void)
{
    const tl_fn whole[] = {(tl_fn)tl_conv2d_bw_w_depthwise_3x3_f32, (tl_fn)tl_conv2d_bw_w_depthwise_3x3_s2_f32};
    const tl_fn split[] = {(tl_fn)tl_conv2d_bw_w_depthwise_3x3_split_f32,
                           (tl_fn)tl_conv2d_bw_w_depthwise_3x3_s2_split_f32};
    const tl_fn forward[] = {(tl_fn)tl_conv2d_fw_depthwise_3x3_f32, (tl_fn)tl_conv2d_fw_f32};
    const tl_fn input[] = {(tl_fn)tl_conv2d_bw_x_depthwise_3x3_f32, (tl_fn)tl_conv2d_bw_x_depthwise_3x3_s2_f32};
    for (int size = 2; size <= 14; size += size < 6 ? 1 : 3) {
        for (int stride = 1; stride <= 2; stride++) {
            kernels of = {forward[stride - 1], input[stride - 1], whole[stride - 1]};
            for (int pad = size < 3; pad <= 2; pad++)
                convolution(&of, 3, 1, 1, size, 3, stride, pad);
            of.weight = split[stride - 1];
            of.input = stride == 2 ? (tl_fn)tl_conv2d_bw_x_depthwise_3x3_s2_pad1_f32 : of.input;
            convolution(&of, 3, 1, 1, size, 3, stride, 1);
        }
    }
    const kernels many = {forward[0], input[0], whole[0]}; /* whole planes, and parts of some, for each core */
    for (int size = 4; size <= 7; size++)
        convolution(&many, 11, 1, 1, size, 3, 1, 1);
}

/* Of three channels; images and outputs of six, of four, and of fewer at the end of a row. */
static void depthwise(void)
{
    static const kernels five[] = {
        {(tl_fn)tl_conv2d_fw_depthwise_5_f32, (tl_fn)tl_conv2d_bw_x_depthwise_5_f32,
         (tl_fn)tl_conv2d_bw_w_depthwise_5_f32},
        {(tl_fn)tl_conv2d_fw_depthwise_5_s2_f32, (tl_fn)tl_conv2d_bw_x_depthwise_s2_f32,
         (tl_fn)tl_conv2d_bw_w_depthwise_5_s2_f32},
    };
    static const kernels seven[] = {
        {(tl_fn)tl_conv2d_fw_depthwise_7_f32, (tl_fn)tl_conv2d_bw_x_depthwise_7_f32,
         (tl_fn)tl_conv2d_bw_w_depthwise_7_f32},
        {(tl_fn)tl_conv2d_fw_depthwise_7_s2_f32, (tl_fn)tl_conv2d_bw_x_depthwise_s2_f32,
         (tl_fn)tl_conv2d_bw_w_depthwise_7_s2_f32},
    };
    for (int size = 6; size <= 14; size += size == 11 ? 3 : 1)
        for (int stride = 1; stride <= 2; stride++) {
            convolution(&five[stride - 1], 3, 1, 1, size, 5, stride, 2);
            convolution(&seven[stride - 1], 3, 1, 1, size, 7, stride, size == 8 ? 2 : 3);
        }
}

/* Into another row, and onto itself. */
static void scaled(int n)
{
    fill_all();
    tl_add_scaled(l1.c, l1.a + 1, l1.b + 2, 0.37f, n);
    tl_add_scaled(l1.c + 100, l1.c + 100, l1.b, -1.3f, n);
    const float *x = l1.a, *y = l1.c + 300;
    float *z = l1.c + 300;
    for (int i = 0; i < n; i++)
        tl_put(&z, tl_next(&x) - tl_next(&y));
    tl_record(l1.c, sizeof l1.c);
}

/* Every third element is far from zero; elsewhere and onto x itself. */
static void silu(int n)
{
    fill_all();
    for (int i = 0; i < n; i++)
        l1.a[i] = i % 3 == 1 ? (i % 2 ? 85.0f : -100.0f) : i % 3 ? 7.0f * l1.a[i] : -l1.a[i];
    tl_silu_row(l1.c, l1.c + n, l1.a, n);
    tl_silu_row(l1.a, l1.c + 2 * n, l1.a, n);
    tl_record(l1.c, sizeof l1.c);
    tl_record(l1.a, sizeof l1.a);
}

static void record_numbers(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : 7.0f; /* of no number machines have bits of their own */
    tl_record(x, n * (int)sizeof *x);
}

/* Parameters that decay, or have a momentum, and others, onto themselves and elsewhere. Of averages of squares two of
 * three are special; the roots of some others are near to 1e-4, of all to 1e12. */
static void adaptive(int n, int near, void (*update)(const tl_adaptive *a, int more, int near, int n))
{
    static const float special[] = {1e30f, 0.0f, 3e38f, 1e-41f, 1e-36f, 1.6e38f, -0.0f, -1.0f, __builtin_inff()};
    fill_all();
    float *w = l1.a, *m = w + n, *v = m + n;
    for (int i = 0; i < n; i++) {
        v[i] = i % 3 ? special[(i + n) % 9] : v[i] * v[i];
        if (i % 9 > 6)
            l1.b[i] = i % 2 ? 0.0f : 1e20f;
    }
    const tl_adaptive apart = {l1.c, l1.c + n, l1.c + 2 * n, w, l1.b, m, v, 0.01f, 0.9f, 0.1f, 0.001f, 1e-4f};
    const tl_adaptive in_place = {w, m, v, w, l1.b, m, v, 1e11f, 0.9f, 0.1f, 0.001f, 1e12f};
    update(&apart, 0, near, n);
    update(&in_place, 1, near, n);
    record_numbers(l1.c, 3 * n), record_numbers(l1.a, 3 * n);
}

int main(void)
{
    static const kernels any = {(tl_fn)tl_conv2d_fw_f32, (tl_fn)tl_conv2d_bw_x_f32, (tl_fn)tl_conv2d_bw_w_f32};
    tl_record_open();
    product((tl_fn)tl_matmul_rows_x_panels_f32, 1, 8, 12, 64, 0);
    product((tl_fn)tl_matmul_rows_x_panels_f32, 2, 9, 7, 83, 0);
    product((tl_fn)tl_matmul_panels_x_panels_f32, 1, 16, 13, 129, 1);
    product((tl_fn)tl_matmul_panels_x_panels_f32, 3, 4, 20, 2, 1);
    product((tl_fn)tl_matmul_packed_x_packed_f32, 1, 11, 17, 31, 1);
    product((tl_fn)tl_matmul_vector_f32, 1, 21, 1, 83, 0), product((tl_fn)tl_matmul_vector_f32, 1, 100, 1, 20, 0);
    product((tl_fn)tl_matmul_vector_f32, 1, 67, 1, 130, 9);
    product((tl_fn)tl_matmul_vectors_columns_f32, 2, 53, 1, 9, 1); /* eight rows of a core, and four, three or none */
    product((tl_fn)tl_matmul_vectors_columns_f32, 1, 32, 1, 65, 1);
    product((tl_fn)tl_matmul_vectors_columns_f32, 1, 64, 1, 1, 1);
    product((tl_fn)tl_matmul_two_f32, 1, 21, 2, 83, 0), product((tl_fn)tl_matmul_split_two_f32, 2, 7, 2, 130, 1);
    convolution(&any, 1, 5, 7, 6, 3, 1, 1), convolution(&any, 1, 3, 5, 9, 3, 2, 1);
    convolution(&any, 2, 4, 6, 5, 1, 1, 0);
    chains(1), chains(2), chains(3), chains(19), eights(3), eights(4), eights(19);
    scan((tl_fn)tl_rnn_fw_f32, (tl_fn)tl_rnn_bw_f32, 1, 2, 17, 0);
    scan((tl_fn)tl_rnn_fw_f32, (tl_fn)tl_rnn_bw_f32, 1, 1, 48, 1);
    scan((tl_fn)tl_gru_fw_f32, (tl_fn)tl_gru_bw_f32, 3, 1, 26, 1);
    scan((tl_fn)tl_gru_fw_f32, (tl_fn)tl_gru_bw_f32, 3, 1, 66, 0);
    scan((tl_fn)tl_lstm_fw_f32, (tl_fn)tl_lstm_bw_f32, 4, 2, 19, 0);
    kernel_rows(), pointwise(), blocks(), squares(), depthwise(), depthwise_threes();
    for (int n = 1; n < 19; n += 4)
        scaled(n), scaled(n + 2), silu(n);
    for (int n = 1; n < 39; n += n / 3 + 1)
        for (int near = 0; near < 2; near++)
            adaptive(n, near, tl_adam_row), adaptive(n, near, tl_rmsprop_row);
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
