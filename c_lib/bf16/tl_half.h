/* bfloat16 in the place of c_lib/include/tl_half.h: the upper half of a float, rounded to nearest, ties to even. What
 * kernels call a half is one of these then, and what they call _f16 has the name of the type. By integer operations,
 * the same everywhere: no instruction of a machine's own is used. */
#ifndef TL_HALF_H
#define TL_HALF_H
#include <stdint.h>

#undef TL_XF16AUXVEC /* instructions of IEEE halves */

typedef uint16_t tl_bf16;
typedef tl_bf16 tl_half;
#define TL_HALF_DIGITS 7 /* behind the point */
#define tl_to_half tl_to_bf16
#define tl_from_half tl_from_bf16
#define tl_matmul_vectors_f16 tl_matmul_vectors_bf16
#define tl_matmul_widened_f16 tl_matmul_widened_bf16
#define tl_matmul_widened_any_f16 tl_matmul_widened_any_bf16
#define tl_matmul_split_widened_f16 tl_matmul_split_widened_bf16
#define tl_matmul_whole_f16 tl_matmul_whole_bf16
#define tl_matmul_f16 tl_matmul_bf16
#define tl_matmul_update_f16 tl_matmul_update_bf16
#define tl_conv2d_fw_pointwise_whole_f16 tl_conv2d_fw_pointwise_whole_bf16
#define tl_conv2d_fw_pointwise_f16 tl_conv2d_fw_pointwise_bf16
#define tl_conv2d_fw_planes_f16 tl_conv2d_fw_planes_bf16
#define tl_conv2d_fw_f16 tl_conv2d_fw_bf16
#define tl_conv2d_bw_w_pointwise_whole_f16 tl_conv2d_bw_w_pointwise_whole_bf16
#define tl_conv2d_bw_w_pointwise_f16 tl_conv2d_bw_w_pointwise_bf16
#define tl_conv2d_bw_w_3_f16 tl_conv2d_bw_w_3_bf16
#define tl_conv2d_bw_w_f16 tl_conv2d_bw_w_bf16
#define tl_conv2d_bw_x_pointwise_whole_f16 tl_conv2d_bw_x_pointwise_whole_bf16
#define tl_conv2d_bw_x_pointwise_f16 tl_conv2d_bw_x_pointwise_bf16
#define tl_conv2d_bw_x_apart_f16 tl_conv2d_bw_x_apart_bf16
#define tl_conv2d_bw_x_planes_f16 tl_conv2d_bw_x_planes_bf16
#define tl_conv2d_bw_x_f16 tl_conv2d_bw_x_bf16
#define tl_conv2d_fw_depthwise_3x3_f16 tl_conv2d_fw_depthwise_3x3_bf16
#define tl_conv2d_bw_x_depthwise_3x3_f16 tl_conv2d_bw_x_depthwise_3x3_bf16
#define tl_conv2d_bw_w_depthwise_3x3_f16 tl_conv2d_bw_w_depthwise_3x3_bf16
#define tl_conv2d_fw_depthwise_3x3_s2_f16 tl_conv2d_fw_depthwise_3x3_s2_bf16
#define tl_conv2d_bw_x_depthwise_3x3_s2_f16 tl_conv2d_bw_x_depthwise_3x3_s2_bf16
#define tl_conv2d_bw_w_depthwise_3x3_s2_f16 tl_conv2d_bw_w_depthwise_3x3_s2_bf16
#define tl_conv2d_fw_depthwise_5_f16 tl_conv2d_fw_depthwise_5_bf16
#define tl_conv2d_fw_depthwise_7_f16 tl_conv2d_fw_depthwise_7_bf16
#define tl_conv2d_fw_depthwise_5_s2_f16 tl_conv2d_fw_depthwise_5_s2_bf16
#define tl_conv2d_fw_depthwise_7_s2_f16 tl_conv2d_fw_depthwise_7_s2_bf16
#define tl_conv2d_bw_x_depthwise_5_f16 tl_conv2d_bw_x_depthwise_5_bf16
#define tl_conv2d_bw_x_depthwise_7_f16 tl_conv2d_bw_x_depthwise_7_bf16
#define tl_conv2d_bw_x_depthwise_s2_f16 tl_conv2d_bw_x_depthwise_s2_bf16
#define tl_conv2d_bw_w_depthwise_5_f16 tl_conv2d_bw_w_depthwise_5_bf16
#define tl_conv2d_bw_w_depthwise_7_f16 tl_conv2d_bw_w_depthwise_7_bf16
#define tl_conv2d_bw_w_depthwise_5_s2_f16 tl_conv2d_bw_w_depthwise_5_s2_bf16
#define tl_conv2d_bw_w_depthwise_7_s2_f16 tl_conv2d_bw_w_depthwise_7_s2_bf16
#define tl_conv2d_fw_depthwise_f16 tl_conv2d_fw_depthwise_bf16
#define tl_conv2d_bw_x_depthwise_f16 tl_conv2d_bw_x_depthwise_bf16
#define tl_conv2d_bw_w_depthwise_f16 tl_conv2d_bw_w_depthwise_bf16
#define tl_conv2d_bw_w_depthwise_split_f16 tl_conv2d_bw_w_depthwise_split_bf16
#define tl_maxpool2d_fw_rows_f16 tl_maxpool2d_fw_rows_bf16
#define tl_maxpool2d_fw_f16 tl_maxpool2d_fw_bf16
#define tl_maxpool2d_bw_tiled_f16 tl_maxpool2d_bw_tiled_bf16
#define tl_maxpool2d_bw_near_f16 tl_maxpool2d_bw_near_bf16
#define tl_maxpool2d_bw_apart_f16 tl_maxpool2d_bw_apart_bf16
#define tl_maxpool2d_bw_f16 tl_maxpool2d_bw_bf16
#define tl_adaptive_maxpool2d_fw_f16 tl_adaptive_maxpool2d_fw_bf16
#define tl_adaptive_maxpool2d_bw_f16 tl_adaptive_maxpool2d_bw_bf16
#define tl_rnn_fw_f16 tl_rnn_fw_bf16
#define tl_rnn_bw_f16 tl_rnn_bw_bf16
#define tl_lstm_fw_f16 tl_lstm_fw_bf16
#define tl_lstm_bw_f16 tl_lstm_bw_bf16
#define tl_gru_fw_f16 tl_gru_fw_bf16
#define tl_gru_bw_f16 tl_gru_bw_bf16
#define tl_rnn_fw_both_f16 tl_rnn_fw_both_bf16
#define tl_rnn_bw_both_f16 tl_rnn_bw_both_bf16
#define tl_lstm_fw_both_f16 tl_lstm_fw_both_bf16
#define tl_lstm_bw_both_f16 tl_lstm_bw_both_bf16
#define tl_gru_fw_both_f16 tl_gru_fw_both_bf16
#define tl_gru_bw_both_f16 tl_gru_bw_both_bf16
#define tl_rnn_fw_brought_f16 tl_rnn_fw_brought_bf16
#define tl_rnn_bw_brought_f16 tl_rnn_bw_brought_bf16
#define tl_lstm_fw_brought_f16 tl_lstm_fw_brought_bf16
#define tl_lstm_bw_brought_f16 tl_lstm_bw_brought_bf16
#define tl_gru_fw_brought_f16 tl_gru_fw_brought_bf16
#define tl_gru_bw_brought_f16 tl_gru_bw_brought_bf16

/* A NaN stays one, also where what tells it lies in the lower bits; what is beyond the largest one by half a step or
 * more is infinite, by the carry. */
static inline tl_bf16 tl_to_bf16(float value)
{
    union {
        float f;
        uint32_t u;
    } x = {value};
    if ((x.u & 0x7fffffffu) > 0x7f800000u)
        return (tl_bf16)(x.u >> 16 | 0x40u);
    return (tl_bf16)((x.u + 0x7fffu + (x.u >> 16 & 1u)) >> 16);
}

/* Exact. */
static inline float tl_from_bf16(tl_bf16 value)
{
    union {
        uint32_t u;
        float f;
    } x = {(uint32_t)value << 16};
    return x.f;
}
#endif
