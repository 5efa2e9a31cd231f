/* LSTM, backward. */
#include "tl_lstm_bw.inc"
