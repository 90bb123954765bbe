// Prints what formats.cuh and layouts.cuh compute, for test_formats.py.

#include <cstdio>
#include <cstdlib>

#include "formats.cuh"
#include "layouts.cuh"

namespace {

void print(const char* what, double value) { std::printf("%s %.9g\n", what, value); }

}  // namespace

int main(int argc, char** argv) {
  for (int i = 0; i < 16; ++i) print("e2m1", situ::e2m1_of_code(static_cast<uint32_t>(i) | 0xab0u));
  for (int i = 0; i < 256; ++i) print("scale", situ::scale_of_byte(static_cast<uint8_t>(i)));
  for (int i = 0; i < 255; ++i) print("inverse", situ::inverse_scale_of_byte(static_cast<uint8_t>(i)));
  for (int i = 0; i < 256; ++i) print("e4m3", situ::e4m3_of_byte(static_cast<uint8_t>(i)));
  for (int i = 0; i < 256; ++i) print("row", situ::row_of_stored(i));
  for (int i = 0; i < 32; ++i) print("mma_row", situ::mma_row_of_row(i));
  for (int row = 0; row < 256; ++row) {
    for (int block = 0; block < 12; ++block) {
      print("scale_at", static_cast<double>(situ::interleaved_scale(row, block, 12)));
    }
  }
  for (int i = 1; i < argc; ++i) {
    const float value = std::strtof(argv[i], nullptr);
    print("to_e4m3", situ::byte_of_e4m3(value));
    print("to_scale", situ::mxfp8_scale_byte(value));
    print("situ", situ::situ(value, 3.0f * value, 4.0f, 25.0f));
  }
}
