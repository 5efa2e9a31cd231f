/* Matrix products. The work is cut into 4 x 4 tiles of c, numbered with the rows fastest, and each core takes a
 * contiguous range of them. Operands are read where they lie if four neighbours are contiguous or k is; else a core
 * packs a panel. */
#include "../ukernels/tl_tile.h"
#include "tl_conv.h"

/* c = base + block sums for one output element reached by index. */
static float start_of(const tl_matmul *p, int b, int m, int n)
{
    if (p->accumulate)
        return p->c[b * p->c_b + m * p->c_m + n * p->c_n];
    return p->init ? p->init[b * p->i_b + m * p->i_m + n * p->i_n] : 0.0f;
}

/* The same product with the roles of rows and columns exchanged: c' = b' a'. */
static tl_matmul transposed(const tl_matmul *p)
{
    tl_matmul q = *p;
    q.a = p->b, q.a_b = p->b_b, q.a_m = p->b_n, q.a_k = p->b_k;
    q.b = p->a, q.b_b = p->a_b, q.b_n = p->a_m, q.b_k = p->a_k;
    q.m = p->n, q.n = p->m;
    q.c_m = p->c_n, q.c_n = p->c_m, q.i_m = p->i_n, q.i_n = p->i_m;
    return q;
}

/* c[i] = base[i] + left * right[i] */
static void scale_row(float *c, const float *base, const float *right, float left, int count)
{
    for (; count >= 4; count -= 4, c += 4, base += 4, right += 4) {
        const float x0 = left * right[0], x1 = left * right[1], x2 = left * right[2], x3 = left * right[3];
        const float b0 = base[0], b1 = base[1], b2 = base[2], b3 = base[3];
        c[0] = b0 + x0, c[1] = b1 + x1, c[2] = b2 + x2, c[3] = b3 + x3;
    }
    for (; count > 0; --count)
        *c++ = *base++ + left * *right++;
}

/* c[i] = left * right[i]; the sum with zero drops the sign of a zero, as in the kernels that add up. */
static void set_row(float *c, const float *right, float left, int count)
{
    for (; count >= 4; count -= 4, c += 4, right += 4) {
        const float x0 = __builtin_fmaf(left, right[0], 0.0f), x1 = __builtin_fmaf(left, right[1], 0.0f);
        const float x2 = __builtin_fmaf(left, right[2], 0.0f), x3 = __builtin_fmaf(left, right[3], 0.0f);
        c[0] = x0, c[1] = x1, c[2] = x2, c[3] = x3;
    }
    for (; count > 0; --count)
        *c++ = __builtin_fmaf(left, *right++, 0.0f);
}

/* Columns n .. n + count - 1 of one row of an outer product. */
static void outer_row(const tl_matmul *p, int b, int m, int n, int count)
{
    const float left = p->a[b * p->a_b + m * p->a_m], *right = p->b + b * p->b_b + n * p->b_n;
    float *c = p->c + b * p->c_b + m * p->c_m + n * p->c_n;
    const float *base = p->init ? p->init + b * p->i_b + m * p->i_m + n * p->i_n : NULL;
    const int dense = p->c_n == 1 && p->b_n == 1;
    if (dense && p->accumulate) {
        scale_row(c, c, right, left, count);
    } else if (dense && !base) {
        set_row(c, right, left, count);
    } else if (dense && p->i_n == 1) {
        scale_row(c, base, right, left, count);
    } else {
        for (int i = 0; i < count; ++i)
            c[i * p->c_n] = start_of(p, b, m, n + i) + left * right[i * p->b_n];
    }
}

/* k == 1: each core takes a contiguous range of elements. */
static void outer(const tl_matmul *p)
{
    int lo, hi;
    tl_split(p->batch * p->m * p->n, 4, &lo, &hi);
    if (lo == hi)
        return;
    int row = lo / p->n, n = lo - row * p->n, b = row / p->m, m = row - b * p->m;
    for (int count; lo < hi; lo += count, n = 0) {
        count = tl_min(p->n - n, hi - lo);
        outer_row(p, b, m, n, count);
        if (++m == p->m)
            m = 0, ++b;
    }
}

#define TL_DOT_STEP(i)                                                                                                 \
    {                                                                                                                  \
        const float v = x[i];                                                                                          \
        s0 = __builtin_fmaf(a[i], v, s0), s1 = __builtin_fmaf(a1[i], v, s1);                                           \
        s2 = __builtin_fmaf(a2[i], v, s2), s3 = __builtin_fmaf(a3[i], v, s3);                                          \
    }

/* sum[i] += sum_k a[i][k] x[k] for four rows whose terms are contiguous, block by block of the sum; missing rows repeat
 * the last one. */
static void dense_rows(float *sum, const float *a, int a_m, int rows, const float *x, int k)
{
    const float *a1 = rows > 1 ? a + a_m : a, *a2 = rows > 2 ? a1 + a_m : a1, *a3 = rows > 3 ? a2 + a_m : a2;
    float t0 = sum[0], t1 = sum[1], t2 = sum[2], t3 = sum[3];
    while (k > 0) {
        const int kc = tl_min(TL_KC, k);
        const float *end = x + kc, *whole = x + (kc & ~3);
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (; x < whole; x += 4, a += 4, a1 += 4, a2 += 4, a3 += 4) {
            TL_DOT_STEP(0)
            TL_DOT_STEP(1)
            TL_DOT_STEP(2)
            TL_DOT_STEP(3)
        }
        for (; x < end; x++, a++, a1++, a2++, a3++)
            TL_DOT_STEP(0)
        t0 += s0, t1 += s1, t2 += s2, t3 += s3;
        k -= kc;
    }
    sum[0] = t0, sum[1] = t1, sum[2] = t2, sum[3] = t3;
}

/* sum[i] += sum_k a[i][k] x[k] over kc terms for four rows; missing rows repeat the last one. */
static void dot_rows(float *sum, const float *a, int a_m, int a_k, int rows, const float *x, int x_k, int kc)
{
    const float *a1 = rows > 1 ? a + a_m : a, *a2 = rows > 2 ? a1 + a_m : a1, *a3 = rows > 3 ? a2 + a_m : a2;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (; kc > 0; --kc, x += x_k) {
        TL_DOT_STEP(0)
        a += a_k, a1 += a_k, a2 += a_k, a3 += a_k;
    }
    sum[0] += s0, sum[1] += s1, sum[2] += s2, sum[3] += s3;
}

/* The same for eight rows that lie side by side. */
static void dot_columns(float *sum, const float *a, int a_k, const float *x, int x_k, int kc)
{
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f, s5 = 0.0f, s6 = 0.0f, s7 = 0.0f;
    for (; kc > 0; --kc, x += x_k, a += a_k) {
        const float v = *x;
        s0 = __builtin_fmaf(a[0], v, s0), s1 = __builtin_fmaf(a[1], v, s1);
        s2 = __builtin_fmaf(a[2], v, s2), s3 = __builtin_fmaf(a[3], v, s3);
        s4 = __builtin_fmaf(a[4], v, s4), s5 = __builtin_fmaf(a[5], v, s5);
        s6 = __builtin_fmaf(a[6], v, s6), s7 = __builtin_fmaf(a[7], v, s7);
    }
    sum[0] += s0, sum[1] += s1, sum[2] += s2, sum[3] += s3;
    sum[4] += s4, sum[5] += s5, sum[6] += s6, sum[7] += s7;
}

/* sum[0 .. rows) += the terms k .. k + kc - 1 of rows m .. m + rows - 1; rows is at most 4, or 8. */
static void dot(const tl_matmul *p, int b, int m, int rows, int k, int kc, float *sum)
{
    const float *a = p->a + b * p->a_b + m * p->a_m + k * p->a_k, *x = p->b + b * p->b_b + k * p->b_k;
    if (rows == 8)
        dot_columns(sum, a, p->a_k, x, p->b_k, kc);
    else if (p->a_k == 1 && p->b_k == 1)
        dense_rows(sum, a, p->a_m, rows, x, kc);
    else
        dot_rows(sum, a, p->a_m, p->a_k, rows, x, p->b_k, kc);
}

/* Rows m .. m + rows - 1. */
static void some_rows(const tl_matmul *p, int b, int m, int rows)
{
    float sum[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, *c = p->c + b * p->c_b + m * p->c_m;
    const int step = p->accumulate ? p->c_m : p->i_m;
    const float *base = c;
    if (!p->accumulate)
        base = p->init ? p->init + b * p->i_b + m * p->i_m : NULL;
    for (int i = 0; base && i < rows; ++i, base += step)
        sum[i] = *base;
    for (int k = 0; k < p->k; k += TL_KC)
        dot(p, b, m, rows, k, tl_min(TL_KC, p->k - k), sum);
    for (int i = 0; i < rows; ++i, c += p->c_m)
        *c = sum[i];
}

/* n == 1: each core takes a range of rows. */
static void matvec(const tl_matmul *p)
{
    int lo, hi;
    tl_split(p->batch * p->m, 1, &lo, &hi);
    int b = lo / p->m, m = lo - b * p->m;
    for (int rows; lo < hi; lo += rows) {
        const int rest = tl_min(hi - lo, p->m - m);
        rows = p->a_m == 1 && rest >= 8 ? 8 : tl_min(4, rest);
        some_rows(p, b, m, rows);
        m += rows;
        if (m == p->m)
            m = 0, ++b;
    }
}

/* n == 1, few rows and many terms: each core takes blocks of sums of four rows, which are then added in their order. */
static void split_matvec(const tl_matmul *p)
{
    const int blocks = (p->k + TL_KC - 1) / TL_KC, quads = (p->m + 3) / 4;
    float *part = p->scratch;
    int lo, hi;
    tl_split(p->batch * quads * blocks, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int k = item % blocks * TL_KC, quad = item / blocks, m = quad % quads * 4;
        float *sum = part + item * 4;
        sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
        dot(p, quad / quads, m, tl_min(4, p->m - m), k, tl_min(TL_KC, p->k - k), sum);
    }
    tl_barrier();
    tl_split(p->batch * p->m, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int b = item / p->m, m = item % p->m;
        const float *from = part + (b * quads + m / 4) * blocks * 4 + m % 4;
        float total = start_of(p, b, m, 0);
        for (int i = 0; i < blocks; ++i)
            total += from[4 * i];
        p->c[b * p->c_b + m * p->c_m] = total;
    }
}

/* Tiles first .. last - 1 of one panel over one block: A's rows or panels where they lie, else packed tile by tile. */
static void tiles_block(const tl_matmul *p, const float *a, int first, int last, const float *b, int b_k, int kc,
                        float *pack, tl_panel_out *out)
{
    const int end = tl_min(p->m, 4 * last), whole = p->a_m == 1 ? end - end % 4 : 4 * first;
    out->row = 4 * first;
    out->row_end = p->a_k == 1 ? end : whole;
    if (p->a_k == 1) {
        tl_tile_rows(out, a + out->row * p->a_m, p->a_m, b, b_k, kc);
        return;
    }
    tl_tile_panel(out, a + out->row, 4, p->a_k, b, b_k, kc);
    for (out->row = whole; out->row < end; out->row += 4) {
        out->row_end = tl_min(end, out->row + 4);
        tl_tile_pack(pack, a + out->row * p->a_m, p->a_m, p->a_k, out->row_end - out->row, kc);
        tl_tile_panel(out, pack, 0, 4, b, b_k, kc);
    }
}

/* Tiles first .. last - 1 of the panel of four columns at n of one batch item, terms from k on. */
static void block(const tl_matmul *p, int b, int n, int first, int last, int k, float *pack, tl_panel_out *out)
{
    const int kc = tl_min(TL_KC, p->k - k), direct = p->b_n == 1 && out->cols == 4;
    const float *left = p->a + b * p->a_b + k * p->a_k, *right = p->b + b * p->b_b + n * p->b_n + k * p->b_k;
    if (!direct)
        tl_tile_pack(pack, right, p->b_n, p->b_k, out->cols, kc);
    tiles_block(p, left, first, last, direct ? right : pack, direct ? p->b_k : 4, kc, pack + TL_PANEL, out);
}

static void panel(const tl_matmul *p, int b, int n, int first, int last, float *pack)
{
    float tile[16];
    tl_panel_out out;
    int k = 0;
    out.c = p->c + b * p->c_b + n * p->c_n, out.c_m = p->c_m;
    out.init = p->init ? p->init + b * p->i_b + n * p->i_n : NULL, out.i_m = p->i_m;
    out.resume = out.pause = 0, out.tile = tile;
    for (int j = 0; j < 4; ++j)
        out.c_n[j] = j * p->c_n, out.i_n[j] = j * p->i_n;
    out.dense = p->c_n == 1;
    out.cols = tl_min(4, p->n - n);
    do {
        out.first = k == 0 && !p->accumulate;
        block(p, b, n, first, last, k, pack, &out);
        k += TL_KC;
    } while (k < p->k);
}

static float *own_panels(const tl_matmul *p)
{
    return (float *)p->scratch + tl_core_id() * 2 * TL_PANEL;
}

static void gemm(const tl_matmul *p)
{
    float *pack = own_panels(p);
    int lo, hi;
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4;
    tl_split_among(tl_team(p->team), p->batch * panels * tiles, 1, &lo, &hi);
    while (lo < hi) {
        const int at = lo / tiles, first = lo % tiles, last = tl_min(tiles, first + hi - lo);
        panel(p, at / panels, at % panels * 4, first, last, pack);
        lo += last - first;
    }
}

/* One block of one tile into part[16]. */
static void part_of(const tl_matmul *p, int tile, int k, float *pack, float *part)
{
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4, t = tile % tiles, at = tile / tiles, n = at % panels * 4;
    float edge[16];
    tl_panel_out out;
    out.c = part - 16 * t, out.c_m = 4, out.dense = out.first = 1;
    for (int j = 0; j < 4; ++j)
        out.c_n[j] = j;
    out.init = NULL, out.resume = out.pause = 0, out.tile = edge;
    out.cols = tl_min(4, p->n - n);
    block(p, at / panels, n, t, t + 1, k, pack, &out);
}

/* Few tiles and many terms: each core takes blocks of tiles, which are then added in their order. */
static void split_gemm(const tl_matmul *p)
{
    float *pack = own_panels(p);
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4, blocks = (p->k + TL_KC - 1) / TL_KC;
    const int team = tl_team(p->team);
    float *part = (float *)p->scratch + team * 2 * TL_PANEL;
    int lo, hi;
    tl_split_among(team, p->batch * panels * tiles * blocks, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item)
        part_of(p, item / blocks, item % blocks * TL_KC, pack, part + 16 * item);
    tl_barrier();
    tl_split(p->batch * p->m * p->n, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int n = item % p->n, m = item / p->n % p->m, b = item / p->n / p->m;
        const float *from = part + ((b * panels + n / 4) * tiles + m / 4) * blocks * 16 + m % 4 * 4 + n % 4;
        float total = start_of(p, b, m, n);
        for (int i = 0; i < blocks; ++i)
            total += from[16 * i];
        p->c[b * p->c_b + m * p->c_m + n * p->c_n] = total;
    }
}

/* A matrix of rows with contiguous terms times a vector, four rows at a time. It has little code besides the loop: tiles
 * come back to it again and again, and eight cores that fetch new instructions wait for each other. */
static __attribute__((noinline)) void rows_by_vector(const tl_matmul *p)
{
    const int by_m = p->n == 1, step = by_m ? p->a_m : p->b_n, c_step = by_m ? p->c_m : p->c_n;
    const int i_step = p->accumulate ? c_step : by_m ? p->i_m : p->i_n;
    const float *base = p->accumulate ? p->c : p->init, *a = by_m ? p->a : p->b, *x = by_m ? p->b : p->a;
    int lo, hi;
    tl_split(by_m ? p->m : p->n, 1, &lo, &hi);
    for (int rows; lo < hi; lo += rows) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        rows = tl_min(4, hi - lo);
        for (int i = 0; base && i < rows; ++i)
            sum[i] = base[(lo + i) * i_step];
        dense_rows(sum, a + lo * step, step, rows, x, p->k);
        for (int i = 0; i < rows; ++i)
            p->c[(lo + i) * c_step] = sum[i];
    }
}

enum { ROWS, PANEL, OTHER };

static int kind(int step_k, int step_m)
{
    return step_k == 1 ? ROWS : step_m == 1 ? PANEL : OTHER;
}

static __attribute__((noinline)) void product(const tl_matmul *p)
{
    const int a = kind(p->a_k, p->a_m), b = kind(p->b_k, p->b_n);
    const int swap = p->k == 1                ? p->c_n != 1
                     : p->n == 1 || p->m == 1 ? p->m == 1
                                              : (a == PANEL && b == ROWS) || (a == OTHER && b != OTHER) ||
                                                    (a == ROWS && b == ROWS && p->n > p->m);
    const tl_matmul q = swap ? transposed(p) : *p;
    const int split = tl_matmul_splits(&q, tl_team(q.team));
    if (q.k == 1)
        outer(&q);
    else if (q.n == 1 && split)
        split_matvec(&q);
    else if (q.n == 1)
        matvec(&q);
    else if (split)
        split_gemm(&q);
    else
        gemm(&q);
}

void tl_matmul_f32(const tl_matmul *p)
{
    const int one = p->batch == 1 && p->k > 1 && (p->m == 1 || p->n == 1);
    if (one && p->a_k == 1 && p->b_k == 1 && !tl_matmul_splits(p, tl_team(p->team)))
        rows_by_vector(p);
    else
        product(p);
}
