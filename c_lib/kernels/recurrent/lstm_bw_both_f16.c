/* LSTM, backward, of halves; two scans at a time. */
#define TL_HALVES
#define TL_BOTH
#include "tl_lstm_bw.inc"
