/* LSTM, forward, of halves. */
#define TL_HALVES
#include "tl_lstm_fw.inc"
