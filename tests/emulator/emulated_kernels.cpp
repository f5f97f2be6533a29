// The kernels for the host, under the emulator, with the face that tests/emulator/device.py calls.
#include "cuda_emulator.hpp"

#define TOKSEAM_EMULATED
#include "kernels.cu"

namespace {

using namespace tokseam::cuda;

struct Described {
  const char* name;
  unsigned threads;
  void (*kernel)(const Chain, unsigned);
};

constexpr Described kDescribed[] = {
#define TOKSEAM_DESCRIBE(name, threads, call) {"tokseam_" #name, threads, &tokseam_##name},
    TOKSEAM_KERNELS(TOKSEAM_DESCRIBE)
#undef TOKSEAM_DESCRIBE
};

const char* const kBufferNames[] = {
#define TOKSEAM_NAME(type, name) #name,
    TOKSEAM_BUFFERS(TOKSEAM_NAME)
#undef TOKSEAM_NAME
};

std::string answer;

}  // namespace

extern "C" {

// The buffers' names in order, and the sizes of their elements; parted by spaces.
const char* emulated_buffers() {
  answer.clear();
#define TOKSEAM_DESCRIBE(type, name) answer += std::string(#name) + " " + std::to_string(sizeof(type)) + " ";
  TOKSEAM_BUFFERS(TOKSEAM_DESCRIBE)
#undef TOKSEAM_DESCRIBE
  return answer.c_str();
}

// The kernels' names and the threads that each is made for; parted by spaces.
const char* emulated_kernels() {
  answer.clear();
  for (const Described& one : kDescribed) answer += std::string(one.name) + " " + std::to_string(one.threads) + " ";
  return answer.c_str();
}

// Launches a kernel over buffers of `counts` elements each; answers what went wrong, or nothing.
const char* emulated_launch(const char* name, unsigned grid, unsigned threads, const void* tables, void* const* pointers,
                            const std::uint64_t* counts, const std::uint32_t* capacity, unsigned which,
                            std::uint64_t seed) {
  Chain chain;
  std::memcpy(static_cast<void*>(&chain.tables), tables, sizeof(chain.tables));
  std::size_t i = 0;
#define TOKSEAM_SET(type, name)                                                                \
  chain.buffers.name = {static_cast<type*>(pointers[i]), static_cast<std::size_t>(counts[i]), kBufferNames[i]}; \
  ++i;
  TOKSEAM_BUFFERS(TOKSEAM_SET)
#undef TOKSEAM_SET
  chain.capacity_bytes = capacity[0];
  chain.capacity_spans = capacity[1];
  chain.capacity_documents = capacity[2];
  for (const Described& one : kDescribed) {
    if (std::strcmp(one.name, name) != 0) continue;
    answer = emulator::launch(grid, threads, seed, [&] { one.kernel(chain, which); });
    if (!answer.empty()) answer = std::string(name) + ": " + answer;
    return answer.c_str();
  }
  answer = std::string("no kernel ") + name;
  return answer.c_str();
}
}
