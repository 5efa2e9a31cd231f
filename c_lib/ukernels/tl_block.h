/* The order of every sum follows from its shape alone: chains of at most so many terms from zero, added up block by
 * block. See docs/kernels.md. */
#ifndef TL_BLOCK_H
#define TL_BLOCK_H
#define TL_KC 64
#endif
