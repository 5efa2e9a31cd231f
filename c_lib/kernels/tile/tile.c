/* The micro-kernels: 16 multiply-adds for 8 loads, with everything in the 28 registers that a core has. */
#include "tl_tile.h"

#define TL_ROWS(what) what(0) what(1) what(2) what(3)

#define TL_DECLARE(i) float c##i##0 = 0.0f, c##i##1 = 0.0f, c##i##2 = 0.0f, c##i##3 = 0.0f;
#define TL_LOAD(i) c##i##0 = t[4 * i], c##i##1 = t[4 * i + 1], c##i##2 = t[4 * i + 2], c##i##3 = t[4 * i + 3];
#define TL_SAVE(i) t[4 * i] = c##i##0, t[4 * i + 1] = c##i##1, t[4 * i + 2] = c##i##2, t[4 * i + 3] = c##i##3;

#define TL_ROW(w, i)                                                                                                   \
    {                                                                                                                  \
        const float left = w;                                                                                          \
        c##i##0 = __builtin_fmaf(left, x0, c##i##0);                                                                   \
        c##i##1 = __builtin_fmaf(left, x1, c##i##1);                                                                   \
        c##i##2 = __builtin_fmaf(left, x2, c##i##2);                                                                   \
        c##i##3 = __builtin_fmaf(left, x3, c##i##3);                                                                   \
    }

#define TL_STEP(w0, w1, w2, w3)                                                                                        \
    {                                                                                                                  \
        const float x0 = b[0], x1 = b[1], x2 = b[2], x3 = b[3];                                                        \
        TL_ROW(w0, 0)                                                                                                  \
        TL_ROW(w1, 1)                                                                                                  \
        TL_ROW(w2, 2)                                                                                                  \
        TL_ROW(w3, 3)                                                                                                  \
        b += b_k;                                                                                                      \
        TL_ONE_POINTER(b)                                                                                              \
    }

/* Adds the finished block to rows of contiguous outputs, or to columns. */
#define TL_SET_ROW(i)                                                                                                  \
    q[0] = 0.0f + c##i##0, q[1] = 0.0f + c##i##1, q[2] = 0.0f + c##i##2, q[3] = 0.0f + c##i##3, q += c_m;
#define TL_ADD_ROW(i) q[0] += c##i##0, q[1] += c##i##1, q[2] += c##i##2, q[3] += c##i##3, q += c_m;
#define TL_ADD_COLUMN(j)                                                                                               \
    {                                                                                                                  \
        float *to = q + out->c_n[j];                                                                                   \
        const float *from = base.at + base.n[j];                                                                       \
        *to = *from + c0##j, to += c_m, from += base.m;                                                                \
        *to = *from + c1##j, to += c_m, from += base.m;                                                                \
        *to = *from + c2##j, to += c_m, from += base.m;                                                                \
        *to = *from + c3##j;                                                                                           \
    }

/* What a block is added to: the output, init, or zero. */
typedef struct {
    const float *at;
    int m;
    const int *n;
} start;

static start start_of(const tl_panel_out *out, int row)
{
    static const float zero = 0.0f;
    static const int nowhere[4] = {0, 0, 0, 0};
    if (!out->first)
        return (start){out->c + row * out->c_m, out->c_m, out->c_n};
    if (out->init)
        return (start){out->init + row * out->i_m, out->i_m, out->i_n};
    return (start){&zero, 0, nowhere};
}

static __attribute__((noinline)) void store_part(const tl_panel_out *out, int row)
{
    const start base = start_of(out, row);
    for (int i = 0; i < 4 && row + i < out->row_end; ++i)
        for (int j = 0; j < out->cols; ++j)
            out->c[(row + i) * out->c_m + out->c_n[j]] = base.at[i * base.m + base.n[j]] + out->tile[4 * i + j];
}

#define TL_BEGIN                                                                                                       \
    TL_ROWS(TL_DECLARE)                                                                                                \
    if (out->resume) {                                                                                                 \
        const float *t = out->tile;                                                                                    \
        TL_ROWS(TL_LOAD)                                                                                               \
    }

#define TL_END                                                                                                         \
    float *q = out->c + row * out->c_m;                                                                                \
    const int c_m = out->c_m;                                                                                          \
    if (out->pause || row + 4 > out->row_end || out->cols < 4) {                                                       \
        float *t = out->tile;                                                                                          \
        TL_ROWS(TL_SAVE)                                                                                               \
        if (!out->pause)                                                                                               \
            store_part(out, row);                                                                                      \
    } else if (out->dense && !out->first) {                                                                            \
        q += out->c_n[0];                                                                                              \
        TL_ROWS(TL_ADD_ROW)                                                                                            \
    } else if (out->dense && !out->init) {                                                                             \
        q += out->c_n[0];                                                                                              \
        TL_ROWS(TL_SET_ROW)                                                                                            \
    } else {                                                                                                           \
        const start base = start_of(out, row);                                                                         \
        TL_ROWS(TL_ADD_COLUMN)                                                                                         \
    }

/* One term of four rows that are `step` elements apart. */
#define TL_STEP_ROWS(i)                                                                                                \
    {                                                                                                                  \
        const float x0 = b[0], x1 = b[1], x2 = b[2], x3 = b[3], *at = a;                                               \
        TL_ROW(at[i], 0)                                                                                               \
        at += step;                                                                                                    \
        TL_ONE_POINTER(at)                                                                                             \
        TL_ROW(at[i], 1)                                                                                               \
        at += step;                                                                                                    \
        TL_ONE_POINTER(at)                                                                                             \
        TL_ROW(at[i], 2)                                                                                               \
        at += step;                                                                                                    \
        TL_ONE_POINTER(at)                                                                                             \
        TL_ROW(at[i], 3)                                                                                               \
        b += b_k;                                                                                                      \
        TL_ONE_POINTER(b)                                                                                              \
    }

static inline __attribute__((always_inline)) void whole_rows(const tl_panel_out *out, int row, const float *a, int step,
                                                             const float *b, int b_k, int kc)
{
    TL_BEGIN
    for (; kc >= 4; kc -= 4) {
        TL_STEP_ROWS(0)
        TL_STEP_ROWS(1)
        TL_STEP_ROWS(2)
        TL_STEP_ROWS(3)
        a += 4;
    }
    for (; kc > 0; --kc, ++a)
        TL_STEP_ROWS(0)
    TL_END
}

/* The last rows, fewer than four: those that are missing repeat the last one. */
static __attribute__((noinline)) void last_rows(const tl_panel_out *out, int row, const float *a, int a_m,
                                                const float *b, int b_k, int kc)
{
    const int rows = out->row_end - row;
    const float *a0 = a, *a1 = rows > 1 ? a0 + a_m : a0, *a2 = rows > 2 ? a1 + a_m : a1;
    TL_BEGIN
    for (; kc > 0; --kc) {
        TL_STEP(*a0, *a1, *a2, *a2)
        ++a0, ++a1, ++a2;
    }
    TL_END
}

static __attribute__((noinline)) void all_rows(const tl_panel_out *out, const float *a, int a_m, const float *b,
                                               int b_k, int kc)
{
    for (int row = out->row; row + 4 <= out->row_end; row += 4, a += 4 * a_m)
        whole_rows(out, row, a, a_m, b, b_k, kc);
}

static __attribute__((noinline)) void all_and_last_rows(const tl_panel_out *out, const float *a, int a_m,
                                                        const float *b, int b_k, int kc)
{
    const int whole = (out->row_end - out->row) & ~3;
    if (whole)
        all_rows(out, a, a_m, b, b_k, kc);
    last_rows(out, out->row + whole, a + whole * a_m, a_m, b, b_k, kc);
}

void tl_tile_rows(const tl_panel_out *out, const float *a, int a_m, const float *b, int b_k, int kc)
{
    if ((out->row_end - out->row) % 4)
        all_and_last_rows(out, a, a_m, b, b_k, kc);
    else
        all_rows(out, a, a_m, b, b_k, kc);
}

static inline __attribute__((always_inline)) void panel_body(const tl_panel_out *out, const float *first, int a_tile,
                                                             int a_k, const float *panel, int b_k, int terms)
{
    for (int row = out->row; row < out->row_end; row += 4, first += a_tile) {
        const float *a = first, *b = panel;
        int kc = terms;
        TL_BEGIN
        for (; kc >= 4; kc -= 4) {
            TL_STEP(a[0], a[1], a[2], a[3])
            a += a_k;
            TL_STEP(a[0], a[1], a[2], a[3])
            a += a_k;
            TL_STEP(a[0], a[1], a[2], a[3])
            a += a_k;
            TL_STEP(a[0], a[1], a[2], a[3])
            a += a_k;
            TL_ONE_POINTER(a)
        }
        for (; kc > 0; --kc, a += a_k)
            TL_STEP(a[0], a[1], a[2], a[3])
        TL_END
    }
}

/* Two functions of their own, so that no core has the frames of both on its stack. */
static __attribute__((noinline)) void panel_packed(const tl_panel_out *out, const float *a, int a_tile, int a_k,
                                                   const float *b, int b_k, int kc)
{
    (void)a_k;
    (void)b_k;
    panel_body(out, a, a_tile, 4, b, 4, kc);
}

static __attribute__((noinline)) void panel_apart(const tl_panel_out *out, const float *a, int a_tile, int a_k,
                                                  const float *b, int b_k, int kc)
{
    panel_body(out, a, a_tile, a_k, b, b_k, kc);
}

void tl_tile_panel(const tl_panel_out *out, const float *a, int a_tile, int a_k, const float *b, int b_k, int kc)
{
    if (a_k == 4 && b_k == 4)
        panel_packed(out, a, a_tile, a_k, b, b_k, kc);
    else
        panel_apart(out, a, a_tile, a_k, b, b_k, kc);
}

void tl_tile_pack(float *dst, const float *src, int s_j, int s_k, int cols, int kc)
{
    if (cols == 4) {
        const float *s1 = src + s_j, *s2 = s1 + s_j, *s3 = s2 + s_j;
        for (; s_k == 1 && kc >= 2; kc -= 2, dst += 8) {
            dst[0] = src[0], dst[1] = s1[0], dst[2] = s2[0], dst[3] = s3[0];
            dst[4] = src[1], dst[5] = s1[1], dst[6] = s2[1], dst[7] = s3[1];
            src += 2, s1 += 2, s2 += 2, s3 += 2;
        }
        for (; kc > 0; --kc, dst += 4) {
            dst[0] = *src, dst[1] = *s1, dst[2] = *s2, dst[3] = *s3;
            src += s_k, s1 += s_k, s2 += s_k, s3 += s_k;
        }
        return;
    }
    for (; kc > 0; --kc, src += s_k, dst += 4)
        for (int j = 0; j < 4; ++j)
            dst[j] = j < cols ? src[j * s_j] : 0.0f;
}
