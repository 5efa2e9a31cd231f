/* Epochs as text, by whole numbers: a controller may have no float unit. */
#include "tl_fit.h"
#include "tl_hal.h"
#include "tl_math.h"

enum { PLACES = 100000, BILLION = 1000000000, INFINITE = 0x7f800000 };

void tl_put_decimal(float number)
{
    const uint32_t bits = tl_bits(number), size = bits & 0x7fffffffu, power = size >> 23;
    const uint32_t mantissa = (bits & 0x7fffffu) | (power ? 0x800000u : 0u);
    if (size > INFINITE) {
        tl_puts("nan");
        return;
    }
    if (bits >> 31 && size)
        tl_puts("-");
    if (size >= tl_bits((float)BILLION)) {
        tl_puts("1e9 or more");
        return;
    }
    const int above = (int)power - 150, behind = above < 0 ? -above : 0; /* bits from, and behind the point */
    uint32_t whole = above >= 0 ? mantissa << above : behind < 24 ? mantissa >> behind : 0, rest = 0;
    if (behind && behind < 60)
        rest = (uint32_t)(((mantissa & ((1ull << behind) - 1)) * PLACES + (1ull << (behind - 1))) >> behind);
    char text[] = ".00000";
    if (rest == PLACES)
        whole++, rest = 0;
    for (int i = 5; i; i--, rest /= 10)
        text[i] = (char)('0' + rest % 10);
    tl_put_number(whole);
    tl_puts(text);
}

void tl_epoch_print(const tl_network *net, const tl_epoch *epoch)
{
    tl_puts("epoch ");
    tl_put_number(epoch->epoch);
    tl_puts(": loss ");
    tl_put_decimal(epoch->loss);
    if (epoch->evaluated) {
        tl_puts(", held out ");
        tl_put_decimal(epoch->held_out_loss);
        for (int m = 0; m < net->metrics; m++) {
            tl_puts(", ");
            tl_puts(net->metric[m].name);
            tl_puts(" ");
            tl_put_decimal(epoch->metrics[m]);
        }
    }
    tl_puts("\n");
}
