/* 3 x 3 convolutions of stride 1 by Winograd's F(2x2, 3x3), one tile at a time, on one core: what its kernels give, bit
 * by bit. Sums over channels are in the order of sum.h. */
#include "tl_conv.h"
#include "sum.h"

/* One dimension of B' d, of G w (the halves are in A'), and of A' m. */
static void of_inputs(const float *d, int step, float *out)
{
    out[0] = d[0] - d[2 * step], out[1] = d[step] + d[2 * step];
    out[2] = d[2 * step] - d[step], out[3] = d[step] - d[3 * step];
}
static void of_weights(const float *w, int step, float *out)
{
    out[0] = w[0], out[1] = w[0] + w[2 * step] + w[step];
    out[2] = w[0] + w[2 * step] - w[step], out[3] = w[2 * step];
}

/* The transformed 4 x 4 of rows x columns numbers. */
static void both(void (*one)(const float *, int, float *), const float *in, int columns, float out[4][4])
{
    float rows[4][4], column[4];
    for (int j = 0; j < columns; j++) {
        one(in + j, columns, column);
        for (int i = 0; i < 4; i++)
            rows[i][j] = column[i];
    }
    for (int i = 0; i < 4; i++)
        one(rows[i], 1, out[i]);
}

/* A plain convolution over images in and out, as forward and input gradient see it. */
typedef struct {
    const float *in, *w, *bias;
    float *out;
    int n, groups, rows, chans, h, wd, high, wide, pad_h, pad_w;
    tl_pitch in_p, out_p;
    int w_group, w_row, w_chan, turned, accumulate;
} plain;

static float input(const plain *p, int n, int c, int y, int x)
{
    return y < 0 || x < 0 || y >= p->h || x >= p->wd ? 0 : p->in[n * p->in_p.n + c * p->in_p.c + y * p->in_p.h + x];
}

/* The products of all 16 elements of a tile. */
static void products(const plain *p, int n, int group, int row, int y, int x, float m[4][4])
{
    sum s[4][4] = {{{0, 0, 0}}};
    for (int c = 0; c < p->chans; c++) {
        const float *w = p->w + group * p->w_group + row * p->w_row + c * p->w_chan;
        float d[16], k[9], v[4][4], u[4][4];
        for (int i = 0; i < 16; i++)
            d[i] = input(p, n, group * p->chans + c, y - p->pad_h + i / 4, x - p->pad_w + i % 4);
        for (int i = 0; i < 9; i++)
            k[i] = w[p->turned ? 8 - i : i];
        both(of_inputs, d, 4, v), both(of_weights, k, 3, u);
        for (int i = 0; i < 16; i++)
            add(&s[i / 4][i % 4], u[i / 4][i % 4], v[i / 4][i % 4]);
    }
    for (int i = 0; i < 16; i++)
        m[i / 4][i % 4] = end(&s[i / 4][i % 4]);
}

/* Output row i of a tile, one row of products after the other. */
static void put(const plain *p, float *to, float start, int i, const float share[4])
{
    const float upper[4] = {1, 0.5f, 0.5f, 0}, lower[4] = {0, 0.5f, -0.5f, -1};
    *to = start;
    for (int j = 0; j < 4; j++)
        if ((i ? lower : upper)[j] != 0)
            *to += (i ? lower : upper)[j] * share[j];
    (void)p;
}

static void convolve(const plain *p)
{
    for (int at = 0; at < p->n * p->groups * p->rows * p->high * p->wide; at++) {
        const int x = at % p->wide, y = at / p->wide % p->high, n = at / p->wide / p->high / p->rows / p->groups;
        const int channel = at / p->wide / p->high % (p->rows * p->groups);
        float *to = p->out + n * p->out_p.n + channel * p->out_p.c + y * p->out_p.h + x, m[4][4], share[4];
        products(p, n, channel / p->rows, channel % p->rows, y & ~1, x & ~1, m);
        for (int j = 0; j < 4; j++)
            share[j] = x % 2 ? 0.5f * (m[j][1] - m[j][2]) - m[j][3] : m[j][0] + 0.5f * (m[j][1] + m[j][2]);
        put(p, to, p->accumulate ? *to : p->bias ? p->bias[channel] : 0, y % 2, share);
    }
}

void reference_winograd_fw(const tl_conv2d *a)
{
    convolve(&(plain){a->x,  a->w,  a->bias,         a->y,    a->n,    a->groups, a->co,
                      a->ci, a->h,  a->wd,           a->ho,   a->wo,   a->pad_h,  a->pad_w,
                      a->xp, a->yp, a->co * a->w_co, a->w_co, a->w_ci, 0,         a->accumulate});
}
void reference_winograd_bw_x(const tl_conv2d *a)
{
    convolve(&(plain){
        a->y,  a->w,         a->bias,      a->x,  a->n,  a->groups,       a->ci,   a->co,   a->ho, a->wo,        a->h,
        a->wd, 2 - a->pad_h, 2 - a->pad_w, a->yp, a->xp, a->co * a->w_co, a->w_ci, a->w_co, 1,     a->accumulate});
}

/* One dimension of A dY. */
static void of_gradients(const float *y, int step, float *out)
{
    out[0] = y[0], out[1] = y[0] + y[step], out[2] = y[0] - y[step], out[3] = y[step];
}

static float gradient(const tl_conv2d *a, int n, int o, int y, int x)
{
    return y >= a->ho || x >= a->wo ? 0 : a->y[n * a->yp.n + o * a->yp.c + y * a->yp.h + x];
}

static float pixel(const tl_conv2d *a, int n, int c, int y, int x)
{
    return y < 0 || x < 0 || y >= a->h || x >= a->wd ? 0 : a->x[n * a->xp.n + c * a->xp.c + y * a->xp.h + x];
}

/* The sums of 32 tiles, for all 16 elements. */
static void block_of(const tl_conv2d *a, int o, int c, int first, int last, float m[4][4])
{
    const int high = (a->ho + 1) / 2, wide = (a->wo + 1) / 2;
    for (int i = 0; i < 16; i++)
        m[i / 4][i % 4] = 0;
    for (int tile = first; tile < last; tile++) {
        const int x = 2 * (tile % wide), y = 2 * (tile / wide % high), n = tile / wide / high;
        float d[16], g[4], v[4][4], z[4][4];
        for (int i = 0; i < 16; i++)
            d[i] = pixel(a, n, c, y - a->pad_h + i / 4, x - a->pad_w + i % 4);
        for (int i = 0; i < 4; i++)
            g[i] = gradient(a, n, o, y + i / 2, x + i % 2);
        both(of_inputs, d, 4, v), both(of_gradients, g, 2, z);
        for (int i = 0; i < 16; i++)
            m[i / 4][i % 4] = __builtin_fmaf(z[i / 4][i % 4], v[i / 4][i % 4], m[i / 4][i % 4]);
    }
}

/* Row after row of the sums; each goes to some rows of the kernel. */
static void add_back(float *w, float m[4][4])
{
    static const float factors[4][3] = {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, -1}};
    for (int row = 0; row < 4; row++) {
        const float sum = m[row][1] + m[row][2], difference = m[row][1] - m[row][2];
        const float share[3] = {m[row][0] + 0.5f * sum, 0.5f * difference, 0.5f * sum - m[row][3]};
        for (int i = 0; i < 9; i++)
            if (factors[row][i / 3] != 0)
                w[i] += factors[row][i / 3] * share[i % 3];
    }
}

void reference_winograd_bw_w(const tl_conv2d *a)
{
    const int tiles = a->n * ((a->ho + 1) / 2) * ((a->wo + 1) / 2);
    for (int at = 0; at < a->groups * a->co * a->ci; at++) {
        const int o = at / a->ci, c = at % a->ci;
        float *w = a->w + o * a->w_co + c * a->w_ci, m[4][4];
        for (int i = 0; i < 9 && !a->accumulate; i++)
            w[i] = 0;
        for (int first = 0; first < tiles; first += 32) {
            block_of(a, o, o / a->co * a->ci + c, first, first + 32 < tiles ? first + 32 : tiles, m);
            add_back(w, m);
        }
    }
}
