/* Files of examples, damaged: for each length and image on the standard input, the fault that it is opened with, and
 * with which its last example is taken. Fields lie in memory of their own, so that the sanitizer sees a byte too
 * many. */
#include "tl_examples.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    tl_field fields[2] = {{0, 0, 0, 0}, {0, 0, 5, -100}};
    tl_sample sample = {.examples = 3, .count = 2, .fields = fields};
    uint32_t length;
    if (argc != 6)
        return 2;
    sample.layout[0] = (uint32_t)strtoul(argv[2], 0, 10);
    sample.layout[1] = (uint32_t)strtoul(argv[3], 0, 10);
    for (int i = 0; i < 2; i++) {
        fields[i].bytes = (uint32_t)atoi(argv[4 + i]);
        fields[i].at = malloc(sample.examples * fields[i].bytes);
        sample.bytes += fields[i].bytes;
    }
    while (fread(&length, sizeof length, 1, stdin)) {
        tl_examples from;
        uint8_t *image = malloc(length + 1);
        FILE *file = fopen(argv[1], "wb");
        if (fread(image, 1, length, stdin) != length || fwrite(image, 1, length, file) != length || fclose(file))
            return 2;
        free(image);
        int fault = tl_examples_from_file(&from, &sample, argv[1]);
        if (!fault)
            fault = tl_examples_take(&from, &sample, from.count - 1, sample.examples - 1);
        printf("%d\n", fault);
    }
    for (int i = 0; i < 2; i++)
        free(fields[i].at);
    return 0;
}
