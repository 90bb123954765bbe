// The one tensor-core instruction in use: every architecture from sm_80 on has it.

#pragma once

#include <cstdint>

namespace situ {

// c += a * b for a warp. With g = lane / 4 and t = lane % 4, each register a pair of bfloat16:
//   a: rows g and g + 8 at k 2t, then rows g and g + 8 at k 2t + 8;
//   b: column g at k 2t, then at k 2t + 8;
//   c: row g at columns 2t and 2t + 1, then row g + 8.
__device__ inline void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace situ
