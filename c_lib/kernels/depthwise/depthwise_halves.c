/* Depthwise kernels of halves: rows with zeros around them, columns of outputs down a copy. */
#include "tl_depthwise_pairs.h"
#include "tl_xpulp.h"

static int between(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* clang-format off */
/* `count` halves of each row; a core with PULP's own instructions two at a time, as rows are short and many. */
static inline __attribute__((always_inline)) void copy_rows(const tl_half *image, int pitch, tl_half *to, int columns,
                                                            int count, int rows)
{
#ifdef TL_XF16AUXVEC
    const int over = 2 * (pitch - count), beside = 2 * (columns - count);
    uint32_t a, b;
    if (rows > 0 && count > 1)
        __asm__ volatile(".balign 4\n.option push\n.option norvc\n1:\n" TL_LOOP("%[twos]", "8")
            TL_LOAD_HALF("%[a]", "%[from]") TL_LOAD_HALF("%[b]", "%[from]")
            TL_STORE_HALF("%[a]", "%[to]") TL_STORE_HALF("%[b]", "%[to]")
            "addi %[rows], %[rows], -1\nbeqz %[one], 2f\n" TL_LOAD_HALF("%[a]", "%[from]")
            "add %[from], %[from], %[over]\n" TL_STORE_HALF("%[a]", "%[to]")
            "add %[to], %[to], %[beside]\nbnez %[rows], 1b\nj 3f\n"
            "2:\nadd %[from], %[from], %[over]\nadd %[to], %[to], %[beside]\nbnez %[rows], 1b\n3:\n.option pop\n"
            : [from] "+r"(image), [to] "+r"(to), [rows] "+r"(rows), [a] "=&r"(a), [b] "=&r"(b)
            : [twos] "r"(count / 2), [one] "r"(count & 1), [over] "r"(over), [beside] "r"(beside)
            : "memory");
    for (; rows > 0 && count == 1; --rows, image += pitch, to += columns)
        *to = *image;
#else
    for (; rows > 0; --rows, image += pitch, to += columns) {
        const tl_half *from = image;
        tl_half *at = to;
        for (int fours = count / 4; fours > 0; --fours, from += 4, at += 4) {
            const tl_half a = from[0], b = from[1], c = from[2], d = from[3];
            at[0] = a, at[1] = b, at[2] = c, at[3] = d;
            TL_ONE_POINTER(from)
            TL_ONE_POINTER(at)
        }
        if (count & 2) {
            const tl_half a = from[0], b = from[1];
            at[0] = a, at[1] = b, from += 2, at += 2;
        }
        if (count & 1)
            *at = *from;
    }
#endif
}
/* clang-format on */

void tl_copy_halves(const tl_half *image, int pitch, int h, int wd, int top, int left, int rows, int columns,
                    tl_half *to, int padded)
{
    const int first = between(-left, 0, columns), count = between(wd - left, first, columns) - first;
    const int begin = between(-top, 0, rows), end = between(h - top, begin, rows);
    tl_pair *words = (tl_pair *)to;
    for (int i = rows * columns / 2; i > 0 && !padded; --i, ++words) {
        *words = 0;
        TL_ONE_POINTER(words) /* not the SDK's bytewise memset */
    }
    image += (top + begin) * pitch + left + first, to += begin * columns + first;
    copy_rows(image, pitch, to, columns, count, end - begin);
}

#define MEET(e, o, word, k)                                                                                            \
    {                                                                                                                  \
        e = tl_pair_add(e, word, w[k]);                                                                                \
        if (both)                                                                                                      \
            o = tl_pair_add(o, word, w[k + 2]);                                                                        \
    }
/* The next row of the copy: the last one of the first window, the middle one of the second, the first one of the
 * third. */
#define NEXT_ROW(e0, o0, e1, o1, e2, o2)                                                                               \
    {                                                                                                                  \
        const tl_pair a = in[0], b = in[1];                                                                            \
        in += pitch, e2 = o2 = start;                                                                                  \
        MEET(e0, o0, a, 8)                                                                                             \
        MEET(e1, o1, a, 4)                                                                                             \
        MEET(e2, o2, a, 0)                                                                                             \
        MEET(e0, o0, b, 9)                                                                                             \
        MEET(e1, o1, b, 5)                                                                                             \
        MEET(e2, o2, b, 1)                                                                                             \
    }
#define PUT(e, o)                                                                                                      \
    {                                                                                                                  \
        if (__builtin_expect(halves, 1)) {                                                                             \
            const tl_pair sums = tl_pair_rounded(e, o);                                                                \
            ((tl_half *)to)[0] = (tl_half)sums;                                                                        \
            if (both)                                                                                                  \
                ((tl_half *)to)[1] = (tl_half)(sums >> 16);                                                            \
        } else {                                                                                                       \
            ((float *)to)[0] = e;                                                                                      \
            if (both)                                                                                                  \
                ((float *)to)[1] = o;                                                                                  \
        }                                                                                                              \
        to += down;                                                                                                    \
        TL_ONE_POINTER(to)                                                                                             \
    }

static inline __attribute__((always_inline)) void columns(const tl_two_columns *c, int count, int both)
{
    const tl_pair *first = c->in;
    const int pitch = c->pitch, halves = c->halves, size = halves ? 2 : 4, down = c->down * size;
    const float start = c->start;
    char *outputs = c->to;
    tl_pair w[12];
    for (int i = 0; i < 12; ++i)
        w[i] = c->w[i];
    for (; count > 0; --count, ++first, outputs += 2 * size) {
        const tl_pair *in = first;
        float e0 = 0.0f, o0 = 0.0f, e1 = 0.0f, o1 = 0.0f, e2 = 0.0f, o2 = 0.0f;
        char *to = outputs;
        int rows = c->rows;
        NEXT_ROW(e2, o2, e2, o2, e0, o0)
        NEXT_ROW(e2, o2, e0, o0, e1, o1)
        for (; rows >= 3; rows -= 3) {
            NEXT_ROW(e0, o0, e1, o1, e2, o2)
            PUT(e0, o0)
            NEXT_ROW(e1, o1, e2, o2, e0, o0)
            PUT(e1, o1)
            NEXT_ROW(e2, o2, e0, o0, e1, o1)
            PUT(e2, o2)
        }
        if (rows > 0) {
            NEXT_ROW(e0, o0, e1, o1, e2, o2)
            PUT(e0, o0)
        }
        if (rows > 1) {
            NEXT_ROW(e1, o1, e2, o2, e0, o0)
            PUT(e1, o1)
        }
    }
}

void tl_one_column(const tl_two_columns *c)
{
    columns(c, 1, 0);
}

void tl_by_two_columns(const tl_two_columns *c)
{
    columns(c, c->twos, 1);
}

static tl_half weight(const tl_conv2d *a, int at)
{
    return a->floats ? tl_to_half(a->w[at]) : a->w_f16[at];
}

void tl_weights_by_twos(const tl_conv2d *a, int at, int step, tl_pair *w)
{
    for (int row = 0; row < 3; ++row, at += 3 * step, w += 4) {
        const tl_half w0 = weight(a, at), w1 = weight(a, at + step), w2 = weight(a, at + 2 * step);
        TL_ONE_POINTER(w)
        w[0] = tl_pair_of(w0, w1), w[1] = tl_pair_of(w2, 0), w[2] = tl_pair_of(0, w0), w[3] = tl_pair_of(w1, w2);
    }
}
