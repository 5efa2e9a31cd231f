/* LSTM, backward, of halves. */
#define TL_HALVES
#include "tl_lstm_bw.inc"
