/* LSTM, forward. */
#include "tl_lstm_fw.inc"
