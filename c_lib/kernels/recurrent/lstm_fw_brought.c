/* LSTM, forward; w comes through scratch. */
#define TL_BROUGHT
#include "tl_lstm_fw.inc"
