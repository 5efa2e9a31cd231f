/* LSTM, forward, of halves; w comes through scratch. */
#define TL_HALVES
#define TL_BROUGHT
#include "tl_lstm_fw.inc"
