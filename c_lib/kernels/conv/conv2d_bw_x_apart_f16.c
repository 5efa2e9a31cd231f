/* Input gradient of halves by one tap whose stride leaves pixels out: of each image a product on those that are met,
 * then rows of zeros with these in between. */
#include "tl_conv.h"
#include "tl_pair.h"
#include "tl_pairs_product.h"
#include "tl_pointer.h"
#include "tl_promise.h"
#include "tl_xpulp.h"

static void zeros(tl_half *to, int count)
{
    if (((uintptr_t)to & 2) != 0 && count > 0)
        *to++ = 0, --count;
    tl_pair *words = (tl_pair *)to;
    for (; count >= 8; count -= 8, words += 4)
        words[0] = 0, words[1] = 0, words[2] = 0, words[3] = 0;
    for (to = (tl_half *)words; count > 0; --count, ++to) {
        *to = 0;
        TL_ONE_POINTER(to) /* not the SDK's bytewise memset */
    }
}

/* Each with a zero behind it, from an even place on. */
static void by_words(tl_half *to, const tl_half *from, int count)
{
    tl_pair *words = (tl_pair *)to;
#ifdef TL_XF16AUXVEC
    tl_pair word;
    if (count > 0)
        __asm__ volatile(".balign 4\n.option push\n.option norvc\n" TL_LOOP("%[count]", "4")
                             TL_LOAD_HALF("%[word]", "%[from]") TL_STORE_ON("%[word]", "%[words]") ".option pop\n"
                         : [word] "=&r"(word), [from] "+r"(from), [words] "+r"(words)
                         : [count] "r"(count)
                         : "memory");
#else
    for (; count > 0; --count)
        *words++ = *from++;
#endif
}

/* A row whose outputs are two apart. */
static void row_of_twos(tl_half *to, int wide, const tl_half *from, int count)
{
    const int pairs = count < wide / 2 ? count : wide / 2;
    by_words(to, from, pairs);
    zeros(to + 2 * pairs, wide - 2 * pairs);
    if (count > pairs)
        to[2 * pairs] = from[pairs];
}

/* This core's rows of the gradient: x[channel][row][column], of met[channel][row][column], which are `pitch` apart from
 * channel to channel. */
static void between_zeros(const tl_conv2d *a, tl_half *x, const tl_half *met, int pitch)
{
    int lo, hi;
    tl_split_among(tl_team(a->team), a->ci * a->h, 1, &lo, &hi);
    int channel = lo / a->h, row = lo - channel * a->h;
    for (; lo < hi; ++lo, ++row) {
        if (row == a->h)
            row = 0, ++channel;
        tl_half *to = x + channel * a->xp.c + row * a->xp.h;
        const int y = row / a->stride_h, meets = y * a->stride_h == row && y < a->ho;
        const tl_half *from = met + channel * pitch + y * a->wo;
        if (meets && a->stride_w == 2 && ((uintptr_t)to & 2) == 0) {
            row_of_twos(to, a->wd, from, a->wo);
            continue;
        }
        zeros(to, a->wd);
        if (!meets)
            continue;
        for (const tl_half *end = from + a->wo; from < end; ++from, to += a->stride_w)
            *to = *from;
    }
}

void tl_conv2d_bw_x_apart_f16(const tl_conv2d *a)
{
    const int pixels = a->ho * a->wo, pitch = (pixels + 1) / 2 * 2; /* rows begin at even places */
    tl_half *met = a->scratch;
    TL_PROMISE(a->kh * a->kw == 1 && a->pad_h == 0 && a->pad_w == 0 && a->halves && !a->accumulate && !a->bias);
    TL_PROMISE((a->ho - 1) * a->stride_h < a->h && (a->wo - 1) * a->stride_w < a->wd);
    TL_PROMISE(a->ho == 1 || a->yp.h == a->wo);
    tl_matmul p = {.batch = 1, .m = a->ci, .n = pixels, .k = a->co, .floats = a->floats, .halves = 1, .c_f16 = met};
    p.a_m = a->w_ci, p.a_k = a->w_co, p.b_k = a->yp.c, p.b_n = 1, p.c_m = pitch, p.c_n = 1;
    p.team = a->team, p.tiles = a->packed_rows, p.scratch = met + a->ci * pitch;
    for (int i = 0; i < a->n * a->groups; ++i) {
        const int n = i / a->groups, group = i - n * a->groups, w = group * a->co * a->w_co;
        if (a->floats)
            p.a = a->w + w;
        else
            p.a_f16 = a->w_f16 + w;
        p.b_f16 = a->y_f16 + n * a->yp.n + group * a->co * a->yp.c;
        tl_pairs_product(&p);
        between_zeros(a, a->x_f16 + n * a->xp.n + group * a->ci * a->xp.c, met, pitch);
    }
}
