#pragma once

#include <map>
#include <string>

#include "cuda_emulator.h"

const std::map<std::string, emulator::KernelFunction>& emulated_kernels();
