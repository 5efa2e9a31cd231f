/* Depthwise 3 x 3 convolutions of halves, forward and input gradient; internal to c_lib/kernels. Of a row of three taps
 * an output in an even column adds up the first two, then the last one; in an odd column the first one, then the last
 * two: so both read the same two words of a copy with zeros around it, and each word serves the windows of three rows.
 * A sum is one chain. An item of work is an output row. Scratch of a core: TL_COPIED halves at most. */
#ifndef TL_DEPTHWISE_PAIRS_H
#define TL_DEPTHWISE_PAIRS_H
#include "tl_plane.h"
#include "tl_pair.h"

enum { TL_COPIED = 1024 };

/* Halves of a copied row: two outputs meet two words, the next two one further. */
static inline int tl_copied_pitch(int outputs)
{
    return (outputs + 1) / 2 * 2 + 2;
}

/* Rows `top` .. and columns `left` .. of an image; padded: the zeros around it are there. */
void tl_copy_halves(const tl_half *image, int pitch, int h, int wd, int top, int left, int rows, int columns,
                    tl_half *to, int padded);

/* Columns of outputs, two at a time, or one. */
typedef struct {
    const tl_pair *in, *w; /* the first window; of each kernel row what even columns multiply, then odd ones */
    void *to;
    float start;
    int twos, rows, halves;
    int pitch, down; /* words to the next row; elements to the next row of outputs */
} tl_two_columns;

void tl_one_column(const tl_two_columns *c);
void tl_by_two_columns(const tl_two_columns *c);

/* w[3][4] of the kernel whose first tap is element `at`, `step` from tap to tap. */
void tl_weights_by_twos(const tl_conv2d *a, int at, int step, tl_pair *w);

/* Outputs of one plane. */
typedef struct {
    const tl_half *image;
    int pitch, h, wd, top, left; /* the first window's row and column */
    int width, padded;
} tl_met_plane;

/* `rows` of them, in parts that fit the copy. */
static inline void tl_plane_columns(const tl_met_plane *p, tl_two_columns c, int rows, tl_half *own)
{
    const int columns = tl_copied_pitch(p->width), most = TL_COPIED / columns - 2, size = c.halves ? 2 : 4;
    char *first = c.to;
    c.pitch = columns / 2, c.twos = p->width / 2;
    for (int done = 0; done < rows; done += c.rows, first += c.rows * c.down * size) {
        c.rows = tl_min(most, rows - done);
        tl_copy_halves(p->image, p->pitch, p->h, p->wd, p->top + done, p->left, c.rows + 2, columns, own,
                       p->padded && rows <= most);
        c.in = (const tl_pair *)own, c.to = first;
        tl_by_two_columns(&c);
        c.in += c.twos, c.to = first + 2 * c.twos * size;
        if (p->width % 2)
            tl_one_column(&c);
    }
}

static inline tl_half *tl_own_copy(const tl_conv2d *a, int rows, int width)
{
    const int columns = tl_copied_pitch(width), most = TL_COPIED / columns - 2;
    return (tl_half *)a->scratch + tl_core_id() * columns * (tl_min(rows, most) + 2);
}
#endif
