/* Epochs as text. */
#include "tl_fit.h"
#include "tl_hal.h"

void tl_put_decimal(float number)
{
    if (number < 0.0f) {
        tl_puts("-");
        number = -number;
    }
    if (!(number < 1e9f)) {
        tl_puts(number == number ? "1e9 or more" : "nan");
        return;
    }
    uint32_t whole = (uint32_t)number, rest = (uint32_t)((number - (float)whole) * 1e5f + 0.5f);
    char text[] = ".00000";
    if (rest == 100000)
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
