/* A number as text. */
#include "tl_hal.h"

void tl_put_number(uint32_t number)
{
    char text[11], *at = text + sizeof text - 1;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    tl_puts(at);
}
