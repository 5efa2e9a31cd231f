/* What a row of the table of kernels promises, asserted in builds with TL_PROMISES: the kernel's tests. A kernel never
 * chooses between algorithms; trainlib_deployer/kernels does. */
#ifndef TL_PROMISE_H
#define TL_PROMISE_H

#ifdef TL_PROMISES
#define TL_PROMISE(what) ((what) ? (void)0 : __builtin_trap())
#else
#define TL_PROMISE(what) ((void)0)
#endif
#endif
