"""An independent reference of the MXFP4 mixture of experts with SiTU, in torch.

It shares no code, table or constant with any runner. Everything works on the device its arguments
are on. Sources: the OCP Microscaling Formats specification 1.0 (MXFP4, MXFP8, E8M0), and the
layouts and rounding points of FlashInfer 0.6.13's fused MoE, against whose pure-Python functions
it is tested.

Letters in shapes: T tokens, K slots per token (top-k), L local experts, H hidden size,
I intermediate size.
"""
