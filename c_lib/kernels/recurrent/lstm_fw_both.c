/* LSTM, forward; two scans at a time. */
#define TL_BOTH
#include "tl_lstm_fw.inc"
