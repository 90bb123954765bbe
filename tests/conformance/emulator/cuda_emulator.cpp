#include "cuda_emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

EmulatedIndex threadIdx;
EmulatedIndex blockIdx;

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 1024;
constexpr unsigned char kFill = 0xff;  // a NaN in bfloat16, float32 and E4M3

struct Barrier {
  unsigned arrived = 0;
  unsigned generation = 0;
  int sum = 0;
  int result = 0;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStackBytes);
  bool done = false;
};

std::vector<Fiber> fibers;
std::vector<unsigned> order;
std::mt19937 random_order;
ucontext_t scheduler;
unsigned current;
unsigned thread_count;
bool progress;
Barrier block_barrier;
std::vector<Barrier> warp_barriers;
std::vector<const void*> exchanged;

emulator::KernelFunction running_kernel;
const void* running_params;
unsigned char* running_shared;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulator: %s in block %u, %u\n", what, blockIdx.x, blockIdx.y);
  std::abort();
}

int wait(Barrier& barrier, unsigned members, int value) {
  const unsigned generation = barrier.generation;
  const unsigned self = current;
  barrier.sum += value;
  progress = true;
  if (++barrier.arrived == members) {
    barrier.result = barrier.sum;
    barrier.sum = 0;
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (barrier.generation == generation) {
    swapcontext(&fibers[self].context, &scheduler);
  }
  return barrier.result;
}

void fiber_main() {
  running_kernel(running_params, running_shared);
  fibers[current].done = true;
  progress = true;
  setcontext(&scheduler);
}

void run_block() {
  for (unsigned thread = 0; thread < thread_count; ++thread) {
    Fiber& fiber = fibers[thread];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    fiber.done = false;
    makecontext(&fiber.context, fiber_main, 0);
  }
  unsigned left = thread_count;
  while (left > 0) {
    progress = false;
    left = 0;
    // Another order at every turn, so that a missing barrier does not go unnoticed.
    std::shuffle(order.begin(), order.end(), random_order);
    for (const unsigned thread : order) {
      if (fibers[thread].done) continue;
      current = thread;
      threadIdx = {thread, 0, 0};
      swapcontext(&scheduler, &fibers[thread].context);
      if (!fibers[thread].done) ++left;
    }
    if (left > 0 && !progress) fail("not all threads reach a barrier");
  }
}

}  // namespace

void __syncthreads() { wait(block_barrier, thread_count, 0); }

int __syncthreads_count(int predicate) {
  return wait(block_barrier, thread_count, predicate ? 1 : 0);
}

namespace emulator {

const void* const* warp_exchange(const void* mine) {
  exchanged[current] = mine;
  const unsigned warp = current / 32;
  wait(warp_barriers[warp], 32, 0);
  return exchanged.data() + 32 * warp;
}

void warp_done() { wait(warp_barriers[current / 32], 32, 0); }

void run(KernelFunction kernel, unsigned grid_x, unsigned grid_y, unsigned threads,
         unsigned shared_bytes, const void* params) {
  if (threads == 0 || threads % 32 != 0 || threads > 1024) fail("a CTA is no number of warps");
  std::vector<unsigned char> shared(shared_bytes + kGuardBytes + 16);
  unsigned char* aligned =
      shared.data() + (16 - reinterpret_cast<uintptr_t>(shared.data()) % 16) % 16;
  if (fibers.size() < threads) fibers.resize(threads);
  thread_count = threads;
  order.resize(threads);
  std::iota(order.begin(), order.end(), 0u);
  warp_barriers.assign(threads / 32, Barrier());
  exchanged.assign(threads, nullptr);
  block_barrier = Barrier();
  running_kernel = kernel;
  running_params = params;
  running_shared = aligned;
  for (unsigned y = 0; y < grid_y; ++y) {
    for (unsigned x = 0; x < grid_x; ++x) {
      blockIdx = {x, y, 0};
      std::memset(aligned, kFill, shared_bytes + kGuardBytes);
      run_block();
      for (size_t i = 0; i < kGuardBytes; ++i) {
        if (aligned[shared_bytes + i] != kFill) fail("a write past shared memory");
      }
    }
  }
}

}  // namespace emulator

unsigned __ballot_sync(unsigned, int predicate) {
  const void* const* lanes = emulator::warp_exchange(&predicate);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (*static_cast<const int*>(lanes[lane]) != 0) bits |= 1u << lane;
  }
  emulator::warp_done();
  return bits;
}

float __shfl_xor_sync(unsigned, float value, int distance) {
  const void* const* lanes = emulator::warp_exchange(&value);
  const float other = *static_cast<const float*>(lanes[(threadIdx.x % 32) ^ distance]);
  emulator::warp_done();
  return other;
}

int __reduce_add_sync(unsigned, int value) {
  const void* const* lanes = emulator::warp_exchange(&value);
  int sum = 0;
  for (int lane = 0; lane < 32; ++lane) sum += *static_cast<const int*>(lanes[lane]);
  emulator::warp_done();
  return sum;
}
