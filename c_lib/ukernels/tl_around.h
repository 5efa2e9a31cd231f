/* A copy of planes with what is around them, shared by the team; internal to c_lib/kernels. */
#ifndef TL_AROUND_H
#define TL_AROUND_H
#include "tl_conv.h"

/* Rows `top` .. and columns `left` .. of all channels of all images, zero outside. */
typedef struct {
    const float *from;
    tl_pitch pitch;
    int n, channels, h, wd;
    int top, left, rows, columns, team;
    float *to; /* [n][channels][rows][columns] */
} tl_around;

void tl_around_copy(const tl_around *p);
#endif
