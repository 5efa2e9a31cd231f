/* Convolutions by one tap over whole planes, of stride 2 from copies of planes, and without padding, which
 * test_xpulp.py runs here and on Spike. */
#include "floats.h"
#include "shapes.h"

void tl_conv2d_fw_plane_f32(const tl_conv2d *a);
void tl_conv2d_fw_plane_ragged_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_plane_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_plane_ragged_f32(const tl_conv2d *a);
void tl_conv2d_fw_threes_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_threes_f32(const tl_conv2d *a);
void tl_conv2d_fw_fours_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_fours_f32(const tl_conv2d *a);
void tl_conv2d_fw_twos_s2_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_3x3_s2_threes_f32(const tl_conv2d *a);
void tl_conv2d_fw_3x3_inside_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_3x3_inside_f32(const tl_conv2d *a);
void tl_conv2d_bw_x_3x3_eight_f32(const tl_conv2d *a);

/* In one block of terms and in two, overwritten, with a bias or without, and added. */
static void planes(int groups, int ci, int co, int size)
{
    const int ragged = ci % 4 || co % 4;
    tl_conv2d p = convolved(groups, ci, co, size, 1, 1, 0);
    for (p.scratch = l1.scratch, p.bias = size % 3 ? l1.init : NULL; p.accumulate < 2; p.accumulate++) {
        p.w = l1.b, p.x = l1.a, p.y = l1.c;
        run(ragged ? (tl_fn)tl_conv2d_fw_plane_ragged_f32 : (tl_fn)tl_conv2d_fw_plane_f32, &p);
        p.x = l1.c, p.y = l1.a;
        run(ragged ? (tl_fn)tl_conv2d_bw_x_plane_ragged_f32 : (tl_fn)tl_conv2d_bw_x_plane_f32, &p);
    }
}

static void side(int n, int groups, int ci, int co, int size, tl_fn fw, tl_fn bw_x)
{
    tl_conv2d p = convolved(groups, ci, co, size, 1, 1, 0);
    for (p.n = n, p.bias = ci % 8 ? l1.init : NULL; p.accumulate < 2; p.accumulate++) {
        p.w = l1.b, p.x = l1.a, p.y = l1.c;
        run(fw, &p);
        p.x = l1.c, p.y = l1.a;
        if (ci % 4 == 0)
            run(bw_x, &p);
    }
}

static void threes(int n, int groups, int ci, int co, int size)
{
    side(n, groups, ci, co, size, (tl_fn)tl_conv2d_fw_threes_f32, (tl_fn)tl_conv2d_bw_x_threes_f32);
}

static void fours(int n, int groups, int ci, int co, int size)
{
    side(n, groups, ci, co, size, (tl_fn)tl_conv2d_fw_fours_f32, (tl_fn)tl_conv2d_bw_x_fours_f32);
}

/* Of stride 2, in one block of terms or several; all rows of outputs or fewer. */
static void strided(int groups, int ci, int co, int size, int pad, int fewer)
{
    tl_conv2d p = convolved(groups, ci, co, size, 3, 2, pad);
    p.ho -= fewer, p.w = l1.b, p.x = l1.a, p.y = l1.c;
    for (p.scratch = l1.scratch, p.bias = size % 3 ? l1.init : NULL; p.accumulate < 2; p.accumulate++)
        run((tl_fn)tl_conv2d_fw_twos_s2_f32, &p);
}

static void squares(int groups, int ci, int co, int size, int pad)
{
    tl_conv2d p = convolved(groups, ci, co, size, 3, 2, pad);
    p.w = l1.b, p.x = l1.c, p.y = l1.a;
    for (p.scratch = l1.scratch, p.bias = size % 3 ? l1.init : NULL; p.accumulate < 2; p.accumulate++)
        run((tl_fn)tl_conv2d_bw_x_3x3_s2_threes_f32, &p);
}

/* Without padding, in one block of terms or several. */
static void inside(int groups, int ci, int co, int size, tl_fn kernel, int forward)
{
    tl_conv2d p = convolved(groups, ci, co, size, 3, 1, 0);
    p.w = l1.b, p.x = forward ? l1.a : l1.c, p.y = forward ? l1.c : l1.a;
    for (p.bias = size % 3 ? NULL : l1.init; p.accumulate < 2; p.accumulate++)
        run(kernel, &p);
}

int main(void)
{
    tl_record_open();
    planes(1, 12, 68, 3), planes(1, 68, 12, 2), planes(2, 4, 8, 4), planes(2, 4, 8, 6), planes(1, 8, 8, 5);
    planes(1, 66, 13, 3), planes(1, 7, 9, 4), planes(1, 3, 1, 5);
    threes(1, 1, 12, 56, 3), threes(1, 1, 132, 8, 3), threes(1, 1, 4, 132, 3), threes(2, 2, 8, 4, 3),
        threes(2, 1, 4, 12, 6);
    fours(1, 1, 12, 8, 7), fours(1, 1, 68, 4, 4), fours(1, 1, 65, 8, 3), fours(1, 1, 4, 132, 3);
    fours(2, 2, 8, 4, 6), fours(1, 1, 4, 8, 10);
    strided(1, 3, 13, 12, 1, 1), strided(1, 9, 7, 7, 1, 0), strided(2, 2, 5, 9, 2, 1);
    squares(1, 3, 18, 12, 1), squares(1, 1, 40, 10, 1), squares(2, 2, 5, 9, 2), squares(1, 2, 35, 8, 0);
    const tl_fn fw = (tl_fn)tl_conv2d_fw_3x3_inside_f32, bw_x = (tl_fn)tl_conv2d_bw_x_3x3_inside_f32;
    inside(1, 8, 8, 8, fw, 1), inside(2, 4, 8, 5, fw, 1), inside(1, 29, 4, 5, fw, 1), inside(1, 3, 4, 11, fw, 1);
    inside(1, 8, 8, 11, bw_x, 0), inside(2, 4, 5, 11, bw_x, 0), inside(1, 4, 25, 11, bw_x, 0);
    const tl_fn eight = (tl_fn)tl_conv2d_bw_x_3x3_eight_f32;
    inside(1, 8, 8, 8, eight, 0), inside(2, 6, 5, 8, eight, 0), inside(1, 2, 29, 8, eight, 0);
    tl_puts("DONE\n");
    tl_exit(0);
    return 0;
}
