/* Damaged states for net_load, each behind its length, from stdin; prints what it returns for each. A state that is
 * refused must have changed nothing, and so must one that is taken: its damage lies behind what was saved. With an
 * argument, writes that state instead. */
#include "net.h"
#include "weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t before[NET_STATE_BYTES], after[NET_STATE_BYTES];

int main(int count, char **words)
{
    uint32_t bytes;
    (void)words;
    net_init();
    net_save(before);
    if (count > 1)
        return fwrite(before, 1, sizeof before, stdout) != sizeof before;
    while (fread(&bytes, sizeof bytes, 1, stdin) == 1) {
        uint8_t *image = malloc(bytes); /* the sanitizer guards its end */
        if (fread(image, 1, bytes, stdin) != bytes)
            return 1;
        printf("%d\n", net_load(image, bytes));
        free(image);
        net_save(after);
        if (memcmp(before, after, sizeof before))
            return 2;
    }
    return 0;
}
