/* Forward convolution with one tap over dense planes, whose channels lie side by side in the weights. */
#include "tl_conv_plane.h"

void tl_conv2d_fw_plane_f32(const tl_conv2d *a)
{
    tl_conv_plane(a, 0, 0);
}
