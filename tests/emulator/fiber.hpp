// Fibers: many stacks, one thread, a switch of a few nanoseconds. For the emulator alone.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace fiber {

using Entry = void (*)(void*);

inline constexpr std::size_t kStackBytes = std::size_t{1} << 16;

struct Fiber {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context{};
#endif
  Entry entry = nullptr;
  void* argument = nullptr;
  bool done = false;
};

struct State {
  std::vector<Fiber> fibers;
  char* stacks = nullptr;
  std::size_t provided = 0;
  Fiber scheduler;
  Fiber* running = nullptr;
};
inline State state;

#if defined(__x86_64__)
// Saves the callee's registers on the stack in use, keeps its pointer in *save, and goes on with the other. It jumps,
// since a processor would predict a `ret` to go back to where it was called from.
extern "C" void tokseam_emulator_switch(void** save, void* load);
asm(R"(
.text
.weak tokseam_emulator_switch
.type tokseam_emulator_switch, @function
tokseam_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size tokseam_emulator_switch, .-tokseam_emulator_switch
)");
#endif

inline void change(Fiber& from, Fiber& to) {
#if defined(__x86_64__)
  tokseam_emulator_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
}

inline void yield() { change(*state.running, state.scheduler); }

// Goes back to the scheduler; the fiber is never resumed.
[[noreturn]] inline void leave_for_good() {
  yield();
  std::abort();
}

inline void body() {
  Fiber* self = state.running;
  self->entry(self->argument);
  self->done = true;
  leave_for_good();
}

// Room for so many fibers.
inline void provide(std::size_t count) {
  if (count <= state.provided) return;
  void* memory = mmap(nullptr, count * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  if (state.stacks != nullptr) munmap(state.stacks, state.provided * kStackBytes);
  state.stacks = static_cast<char*>(memory);
  state.provided = count;
  state.fibers.resize(count);
}

// Make fiber i ready to run entry(argument) from its beginning.
inline void prepare(std::size_t i, Entry entry, void* argument) {
  Fiber& one = state.fibers[i];
  one.entry = entry;
  one.argument = argument;
  one.done = false;
  char* stack = state.stacks + i * kStackBytes;
#if defined(__x86_64__)
  auto* top = reinterpret_cast<std::uint64_t*>(stack + kStackBytes);
  *--top = 0;  // where body() would return to; keeps the stack aligned as a call does
  *--top = reinterpret_cast<std::uint64_t>(&body);
  for (int saved = 0; saved < 6; ++saved) *--top = 0;
  one.stack_pointer = top;
#else
  getcontext(&one.context);
  one.context.uc_stack.ss_sp = stack;
  one.context.uc_stack.ss_size = kStackBytes;
  one.context.uc_link = nullptr;
  makecontext(&one.context, &body, 0);
#endif
}

// Run fiber i until it yields or ends; returns whether it ended.
inline bool resume(std::size_t i) {
  state.running = &state.fibers[i];
  change(state.scheduler, *state.running);
  return state.fibers[i].done;
}

}  // namespace fiber
