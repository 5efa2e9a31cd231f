/* The micro-kernels: 16 multiply-adds for 8 loads, with everything in the 28 registers that a core has. */
#include "tl_tile.h"
#include "tl_terms.h"
#include "tl_tile_xpulp.h"

/* What helps: steps that are known; one number that a whole row is added to. */
#ifdef TL_XPULP_TILES
enum { TL_STEPS_HELP = 0, TL_ONE_FOR_A_ROW = 1 };
#else
enum { TL_STEPS_HELP = 1, TL_ONE_FOR_A_ROW = 0 };
#endif

#define TL_TAKE(i) c##i##0 = t[4 * i], c##i##1 = t[4 * i + 1], c##i##2 = t[4 * i + 2], c##i##3 = t[4 * i + 3];
#define TL_KEEP(i) t[4 * i] = c##i##0, t[4 * i + 1] = c##i##1, t[4 * i + 2] = c##i##2, t[4 * i + 3] = c##i##3;

/* Overwrites rows of contiguous outputs, or adds the finished block to what they begin with. */
#define TL_SET_ROW(i)                                                                                                  \
    q[0] = 0.0f + c##i##0, q[1] = 0.0f + c##i##1, q[2] = 0.0f + c##i##2, q[3] = 0.0f + c##i##3, q += c_m;
#define TL_ADD_ROW(i)                                                                                                  \
    q[0] = p[0] + c##i##0, q[1] = p[1] + c##i##1, q[2] = p[2] + c##i##2, q[3] = p[3] + c##i##3;                        \
    p += p_m, q += c_m;

/* What a block is added to: the output, init, or zero. */
typedef struct {
    const float *at;
    int m;
    const int *n;
} start;

/* On the stack: constants lie in L2. */
typedef struct {
    float zero;
    int nowhere[4];
} nothing;

static inline start start_of(const tl_panel_out *out, int row, nothing *none)
{
    if (!out->first)
        return (start){out->c + row * out->c_m, out->c_m, out->c_n};
    if (out->init)
        return (start){out->init + row * out->i_m, out->i_m, out->i_n};
    int zero = 0;
    TL_ADDRESS_HERE(zero) /* not a memset: the SDK's goes byte by byte */
    none->zero = 0.0f;
    for (int j = 0; j < 4; ++j)
        none->nowhere[j] = zero;
    return (start){&none->zero, 0, none->nowhere};
}

#define TL_STORE_ROW(j)                                                                                                \
    {                                                                                                                  \
        const float *from = base.at + base.n[j];                                                                       \
        float *to = q + out->c_n[j];                                                                                   \
        *to = *from + t[j], to += c_m, from += base.m;                                                                 \
        *to = *from + t[4 + j], to += c_m, from += base.m;                                                             \
        *to = *from + t[8 + j], to += c_m, from += base.m;                                                             \
        *to = *from + t[12 + j];                                                                                       \
    }

/* Adds the tile's rows from t on to those of the output that there are. */
static void store(const tl_panel_out *out, int row, const float *t)
{
    nothing none;
    const start base = start_of(out, row, &none);
    const int c_m = out->c_m;
    float *q = out->c + row * c_m;
    if (row + 4 <= out->row_end && out->cols == 4) {
        TL_EACH_ROW(TL_STORE_ROW)
        return;
    }
    for (int j = 0, rows = tl_min(4, out->row_end - row); j < out->cols; ++j) {
        const float *from = base.at + base.n[j], *sum = t + j;
        float *to = q + out->c_n[j];
        for (int i = rows; i > 0; --i, to += c_m, from += base.m, sum += 4)
            *to = *from + *sum;
    }
}

/* What becomes of whole tiles: they overwrite dense rows, or are added to dense rows, or to a number a row, on the way
 * there; anything else; they are continued. */
static inline int end_of(const tl_panel_out *out)
{
    const int begins = out->first && out->init, *n = out->i_n;
    if (out->pause)
        return TL_PAUSE;
    if (!out->dense || out->cols < 4)
        return TL_STORE;
    if (begins && !(n[1] == n[0] + 1 && n[2] == n[0] + 2 && n[3] == n[0] + 3) && !(TL_ONE_FOR_A_ROW && n[3] == n[0]))
        return TL_STORE;
    return out->first && !begins ? TL_SET : TL_ADD;
}

#define TL_BEGIN                                                                                                       \
    TL_EACH_ROW(TL_ZERO_ROW)                                                                                           \
    if (out->resume) {                                                                                                 \
        const float *t = out->tile;                                                                                    \
        TL_EACH_ROW(TL_TAKE)                                                                                           \
    }

#define TL_END(end)                                                                                                    \
    if (end <= TL_ADD) {                                                                                               \
        const int c_m = out->c_m;                                                                                      \
        float *q = out->c + row * c_m + out->c_n[0];                                                                   \
        if (end == TL_SET) {                                                                                           \
            TL_EACH_ROW(TL_SET_ROW)                                                                                    \
        } else {                                                                                                       \
            const int p_m = out->first ? out->i_m : c_m;                                                               \
            const float *p = out->first ? out->init + row * p_m + out->i_n[0] : q;                                     \
            TL_EACH_ROW(TL_ADD_ROW)                                                                                    \
        }                                                                                                              \
    } else {                                                                                                           \
        float *t = out->tile;                                                                                          \
        TL_EACH_ROW(TL_KEEP)                                                                                           \
        if (end == TL_STORE)                                                                                           \
            store(out, row, t + 4 * above);                                                                            \
    }

#ifdef TL_XPULP_TILES
static inline __attribute__((always_inline)) void whole_rows(const tl_panel_out *out, const float *a, int a_m,
                                                             const float *b, int b_k, int kc, int packed)
{
    tl_tile_way way = tl_way_of(out, out->row, end_of(out), kc);
    (void)packed;
    for (int row = out->row, left = out->row_end - row, done; left > 0; left -= done, row += done, a += done * a_m) {
        const int above = left < 4 ? 4 - left : 0;
        if (above)
            way = tl_way_of(out, row, out->pause ? TL_PAUSE : TL_STORE, kc);
        done = way.end <= TL_ADD ? left & ~3 : 4;
        tl_xpulp_rows(&way, a - above * a_m, a_m, b, b_k, done >> 2);
        if (way.end == TL_STORE)
            store(out, row, out->tile + 4 * above);
        if (way.end > TL_ADD)
            way.to = out->tile; /* once more */
    }
}

static inline __attribute__((always_inline)) void panel_body(const tl_panel_out *out, const float *a, int a_tile,
                                                             int a_k, const float *b, int b_k, int terms)
{
    tl_tile_way way = tl_way_of(out, out->row, end_of(out), terms);
    for (int row = out->row, left = out->row_end - row, done; left > 0; left -= done, row += done) {
        if (left < 4)
            way = tl_way_of(out, row, out->pause ? TL_PAUSE : TL_STORE, terms);
        done = way.end <= TL_ADD ? left & ~3 : 4;
        tl_xpulp_panel(&way, a, a_tile, a_k, b, b_k, done >> 2);
        if (way.end == TL_STORE)
            store(out, row, out->tile);
        if (way.end > TL_ADD)
            way.to = out->tile; /* once more */
        a += (done >> 2) * a_tile;
    }
}
#else
/* packed, a literal: b_k is 4. */
static inline __attribute__((always_inline)) void four_rows(const tl_panel_out *out, int row, int above, int end,
                                                            const float *a, int step, const float *b, int b_k, int kc,
                                                            int packed)
{
    TL_BEGIN
    if (kc > 0) {
        const float *at;
        float w0 = *a, w1 = a[step], w2, w3, x0 = b[0], x1, x2, x3;
        int left = kc - 1;
        TL_ADDRESS_HERE(left)
        if (packed) {
            x1 = b[1];
            while (left != 0) {
                TL_TERM_OF_ROWS(1)
            }
            TL_TERM_OF_ROWS(0)
        } else {
            while (left != 0) {
                TL_TERM_OF_ROWS_APART(1)
            }
            TL_TERM_OF_ROWS_APART(0)
        }
    }
    TL_END(end)
}

static inline __attribute__((always_inline)) void one_panel(const tl_panel_out *out, int row, int end, const float *a,
                                                            int a_k, const float *b, int b_k, int terms)
{
    enum { above = 0 };
    TL_BEGIN
    if (terms > 0) {
        TL_TERMS_OF_PANEL(terms)
    }
    TL_END(end)
}

static inline __attribute__((always_inline)) void whole_rows(const tl_panel_out *out, const float *a, int a_m,
                                                             const float *b, int b_k, int kc, int packed)
{
    const int whole = end_of(out), part = out->pause ? TL_PAUSE : TL_STORE;
    for (int row = out->row; row < out->row_end; row += 4, a += 4 * a_m) {
        const int above = row + 4 > out->row_end ? row + 4 - out->row_end : 0;
        four_rows(out, row, above, above ? part : whole, a - above * a_m, a_m, b, b_k, kc, packed);
    }
}

static inline __attribute__((always_inline)) void panel_body(const tl_panel_out *out, const float *first, int a_tile,
                                                             int a_k, const float *panel, int b_k, int terms)
{
    const int whole = end_of(out), part = out->pause ? TL_PAUSE : TL_STORE;
    for (int row = out->row; row < out->row_end; row += 4, first += a_tile)
        one_panel(out, row, row + 4 <= out->row_end ? whole : part, first, a_k, panel, b_k, terms);
}
#endif

/* Fewer than four rows in all: those that are missing repeat the last one. */
static __attribute__((noinline)) void few_rows(const tl_panel_out *out, const float *a, int a_m, const float *b,
                                               int b_k, int kc)
{
    enum { row = 0, above = 0 };
    const float *a0 = a, *a1 = out->row_end > 1 ? a0 + a_m : a0, *a2 = out->row_end > 2 ? a1 + a_m : a1;
    TL_BEGIN
    for (; kc > 0; --kc, b += b_k) {
        const float w0 = *a0++, w1 = *a1++, w2 = *a2++, w3 = w2, x0 = b[0], x1 = b[1], x2 = b[2], x3 = b[3];
        TL_EACH_ROW(TL_FOUR)
    }
    TL_END((out->pause ? TL_PAUSE : TL_STORE))
}

/* Two functions each for packed panels and others: a step that is known needs no register. */
static __attribute__((noinline)) void rows_packed(const tl_panel_out *out, const float *a, int a_m, const float *b,
                                                  int kc)
{
    whole_rows(out, a, a_m, b, 4, kc, 1);
}

static __attribute__((noinline)) void rows_apart(const tl_panel_out *out, const float *a, int a_m, const float *b,
                                                 int b_k, int kc)
{
    whole_rows(out, a, a_m, b, b_k, kc, 0);
}

/* The last rows, fewer than four, are made with those above them, which are made twice. */
void tl_tile_rows(const tl_panel_out *out, const float *a, int a_m, const float *b, int b_k, int kc)
{
    if (out->row_end < 4)
        few_rows(out, a, a_m, b, b_k, kc);
    else if (TL_STEPS_HELP && b_k == 4)
        rows_packed(out, a, a_m, b, kc);
    else
        rows_apart(out, a, a_m, b, b_k, kc);
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
    if (TL_STEPS_HELP && a_k == 4 && b_k == 4)
        panel_packed(out, a, a_tile, a_k, b, b_k, kc);
    else
        panel_apart(out, a, a_tile, a_k, b, b_k, kc);
}

void tl_tile_pack(float *dst, const float *src, int s_j, int s_k, int cols, int kc)
{
    const float *s1 = cols > 1 ? src + s_j : src, *s2 = cols > 2 ? s1 + s_j : s1, *s3 = cols > 3 ? s2 + s_j : s2;
    for (; s_k == 1 && kc >= 2; kc -= 2, dst += 8) {
        dst[0] = src[0], dst[1] = s1[0], dst[2] = s2[0], dst[3] = s3[0];
        dst[4] = src[1], dst[5] = s1[1], dst[6] = s2[1], dst[7] = s3[1];
        src += 2, s1 += 2, s2 += 2, s3 += 2;
    }
    for (; kc > 0; --kc, dst += 4) {
        dst[0] = *src, dst[1] = *s1, dst[2] = *s2, dst[3] = *s3;
        src += s_k, s1 += s_k, s2 += s_k, s3 += s_k;
    }
}
