/* What the two stub libraries share: every call that matters is told to one listener.

   Nothing is executed here and no memory is read for a device: the listener (fake_cuda.py, through
   ctypes) decides what a call does and returns its result code. */
#pragma once
#include <stdint.h>

/* Gets a call's name and its arguments as 64-bit words; returns the call's result code. */
typedef int (*situ_listener)(const char *call, const uint64_t *words);

void situ_rehearsal_listen(situ_listener listener);
int situ_rehearsal_tell(const char *call, const uint64_t *words);

#define WORD(value) ((uint64_t)(uintptr_t)(value))
#define TELL(...) situ_rehearsal_tell(__func__, (const uint64_t[]){__VA_ARGS__})
