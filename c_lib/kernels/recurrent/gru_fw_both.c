/* GRU, forward; two scans at a time. */
#define TL_BOTH
#include "tl_gru_fw.inc"
