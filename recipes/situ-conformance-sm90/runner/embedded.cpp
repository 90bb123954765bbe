// The device code of kernels/routing.cu, as the build left it beside this file's object. It lies where
// the CUDA compiler would put it.

asm(R"(
  .pushsection .nv_fatbin, "a", @progbits
  .balign 16
  .globl situ_embedded_fatbin
  .hidden situ_embedded_fatbin
situ_embedded_fatbin:
  .incbin "routing.fatbin"
  .popsection
)");
