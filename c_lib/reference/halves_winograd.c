/* 3 x 3 convolutions of halves by Winograd's F(2x2, 3x3), one output at a time, on one core: what their kernels give,
 * bit by bit. Inputs are transformed as halves, weights as floats and rounded then. */
#define REFERENCE_F16
#include "tl_conv.h"
#include "sum.h"

static tl_half plus(tl_half a, tl_half b)
{
    return tl_to_half(tl_from_half(a) + tl_from_half(b));
}
static tl_half minus(tl_half a, tl_half b)
{
    return tl_to_half(tl_from_half(a) - tl_from_half(b));
}

/* One dimension of B' d and of G w. */
static void of_inputs(const tl_half *d, int step, tl_half *out, int out_step)
{
    out[0] = minus(d[0], d[2 * step]), out[out_step] = plus(d[step], d[2 * step]);
    out[2 * out_step] = minus(d[2 * step], d[step]), out[3 * out_step] = minus(d[step], d[3 * step]);
}
static void of_tile(const tl_half d[16], tl_half v[16])
{
    tl_half across[16];
    for (int j = 0; j < 4; j++)
        of_inputs(d + j, 4, across + j, 4);
    for (int i = 0; i < 4; i++)
        of_inputs(across + 4 * i, 1, v + 4 * i, 1);
}
static void of_weights(const float *w, int step, float *out, int out_step)
{
    out[0] = w[0], out[out_step] = w[0] + w[2 * step] + w[step];
    out[2 * out_step] = w[0] + w[2 * step] - w[step], out[3 * out_step] = w[2 * step];
}

static tl_half at(const tl_half *of, const tl_pitch *p, int n, int c, int y, int x, int high, int wide)
{
    return y < 0 || x < 0 || y >= high || x >= wide ? 0 : of[n * p->n + c * p->c + y * p->h + x];
}

/* A plain convolution, as forward and input gradient see it: a float or a half result. */
typedef struct {
    const tl_half *in;
    const float *w, *bias;
    const tl_half *w_f16;
    float *out;
    int n, groups, rows, chans, h, wd, high, wide, pad_h, pad_w;
    tl_pitch in_p, out_p;
    int w_group, w_row, w_chan, turned, accumulate;
} plain;

static void transformed(const plain *p, int n, int group, int row, int c, int y, int x, tl_half *v, tl_half *u)
{
    tl_half d[16];
    float k[9], rows[12], all[16];
    for (int i = 0; i < 16; i++)
        d[i] = at(p->in, &p->in_p, n, group * p->chans + c, y + i / 4, x + i % 4, p->h, p->wd);
    for (int i = 0; i < 9; i++) {
        const int of = group * p->w_group + row * p->w_row + c * p->w_chan + (p->turned ? 8 - i : i);
        k[i] = p->w ? p->w[of] : tl_from_half(p->w_f16[of]);
    }
    of_tile(d, v);
    for (int j = 0; j < 3; j++)
        of_weights(k + j, 3, rows + j, 3);
    for (int i = 0; i < 4; i++)
        of_weights(rows + 3 * i, 1, all + 4 * i, 1);
    for (int i = 0; i < 16; i++)
        u[i] = tl_to_half(all[i]);
}

/* One dimension of A' m. */
static float back(const float *m, int step, int odd)
{
    return odd ? 0.5f * (m[step] - m[2 * step]) - m[3 * step] : m[0] + 0.5f * (m[step] + m[2 * step]);
}

/* What a row of M adds to output row `odd`. */
static float added(float y, float share, int row, int odd)
{
    const float upper[4] = {1, 0.5f, 0.5f, 0}, lower[4] = {0, 0.5f, -0.5f, -1}, factor = (odd ? lower : upper)[row];
    return factor == 0 ? y : row == odd ? factor * share : y + factor * share;
}

static float output(const plain *p, int n, int channel, int y, int x)
{
    sum s[16] = {{0, 0, 0, 0}};
    float m[16], y_sum = 0;
    for (int c = 0; c < p->chans; c++) {
        tl_half v[16], u[16];
        transformed(p, n, channel / p->rows, channel % p->rows, c, (y & ~1) - p->pad_h, (x & ~1) - p->pad_w, v, u);
        for (int i = 0; i < 16; i++)
            add(&s[i], u[i], v[i]);
    }
    for (int i = 0; i < 16; i++)
        m[i] = end(&s[i]);
    for (int i = 0; i < 4; i++)
        y_sum = added(y_sum, back(m + 4 * i, 1, x % 2), i, y % 2);
    return y_sum;
}

static void convolve(const plain *p)
{
    for (int at = 0; at < p->n * p->groups * p->rows * p->high * p->wide; at++) {
        const int x = at % p->wide, y = at / p->wide % p->high, n = at / p->wide / p->high / p->rows / p->groups;
        const int channel = at / p->wide / p->high % (p->rows * p->groups);
        float *to = p->out + n * p->out_p.n + channel * p->out_p.c + y * p->out_p.h + x;
        *to = (p->accumulate ? *to : p->bias ? p->bias[channel] : 0) + output(p, n, channel, y, x);
    }
}

void reference_winograd_fw_f16(const tl_conv2d *a)
{
    convolve(&(plain){a->x_f16,  a->floats ? a->w : NULL,
                      a->bias,   a->floats ? NULL : a->w_f16,
                      a->y,      a->n,
                      a->groups, a->co,
                      a->ci,     a->h,
                      a->wd,     a->ho,
                      a->wo,     a->pad_h,
                      a->pad_w,  a->xp,
                      a->yp,     a->co * a->w_co,
                      a->w_co,   a->w_ci,
                      0,         a->accumulate});
}
void reference_winograd_bw_x_f16(const tl_conv2d *a)
{
    convolve(&(plain){a->y_f16,
                      a->floats ? a->w : NULL,
                      a->bias,
                      a->floats ? NULL : a->w_f16,
                      a->x,
                      a->n,
                      a->groups,
                      a->ci,
                      a->co,
                      a->ho,
                      a->wo,
                      a->h,
                      a->wd,
                      2 - a->pad_h,
                      2 - a->pad_w,
                      a->yp,
                      a->xp,
                      a->co * a->w_co,
                      a->w_ci,
                      a->w_co,
                      1,
                      a->accumulate});
}

/* One dimension of A dY. */
static void of_gradients(const tl_half *y, int step, tl_half *out, int out_step)
{
    out[0] = y[0], out[out_step] = plus(y[0], y[step]);
    out[2 * out_step] = minus(y[0], y[step]), out[3 * out_step] = y[step];
}

/* The sums of 64 tiles, for all 16 elements. */
static void block_of(const tl_conv2d *a, int o, int c, int first, int last, float m[16])
{
    const int high = (a->ho + 1) / 2, wide = (a->wo + 1) / 2;
    sum s[16] = {{0, 0, 0, 0}};
    for (int tile = first; tile < last; tile++) {
        const int x = 2 * (tile % wide), y = 2 * (tile / wide % high), n = tile / wide / high;
        tl_half d[16], g[4], across[16], v[16], z[16];
        for (int i = 0; i < 16; i++)
            d[i] = at(a->x_f16, &a->xp, n, c, y - a->pad_h + i / 4, x - a->pad_w + i % 4, a->h, a->wd);
        for (int i = 0; i < 4; i++)
            g[i] = at(a->y_f16, &a->yp, n, o, y + i / 2, x + i % 2, a->ho, a->wo);
        of_tile(d, v);
        for (int j = 0; j < 2; j++)
            of_gradients(g + j, 2, across + j, 2);
        for (int i = 0; i < 4; i++)
            of_gradients(across + 2 * i, 1, z + 4 * i, 1);
        for (int i = 0; i < 16; i++)
            add(&s[i], z[i], v[i]);
    }
    for (int i = 0; i < 16; i++)
        m[i] = end(&s[i]);
}

/* Row after row of the sums; each goes to some rows of the kernel. */
static void add_back(float *w, const float m[16])
{
    static const float factors[4][3] = {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, -1}};
    for (int row = 0; row < 4; row++, m += 4) {
        const float both = m[1] + m[2], difference = m[1] - m[2];
        const float share[3] = {m[0] + 0.5f * both, 0.5f * difference, 0.5f * both - m[3]};
        for (int i = 0; i < 9; i++)
            if (factors[row][i / 3] != 0)
                w[i] += factors[row][i / 3] * share[i % 3];
    }
}

void reference_winograd_bw_w_f16(const tl_conv2d *a)
{
    const int tiles = a->n * ((a->ho + 1) / 2) * ((a->wo + 1) / 2);
    for (int i = 0; i < a->groups * a->co * a->ci; i++) {
        const int o = i / a->ci, c = i % a->ci;
        float *w = a->w + o * a->w_co + c * a->w_ci, m[16];
        for (int k = 0; k < 9 && !a->accumulate; k++)
            w[k] = 0;
        for (int first = 0; first < tiles; first += 64) {
            block_of(a, o, o / a->co * a->ci + c, first, first + 64 < tiles ? first + 64 : tiles, m);
            add_back(w, m);
        }
    }
}
