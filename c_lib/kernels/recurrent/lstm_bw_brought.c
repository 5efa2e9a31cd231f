/* LSTM, backward; w comes through scratch. */
#define TL_BROUGHT
#include "tl_lstm_bw.inc"
