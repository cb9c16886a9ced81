#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attune::detail {

struct Heap;

// Stands in the 64 bytes before the data of a block. The layout is private to src/array.
struct alignas(64) Buffer {
  std::atomic<std::int32_t> references;
  std::int32_t size_class;
  Heap* owner;   // the thread's heap that handed the block out and gets it back
  Buffer* next;  // in a free list
};
static_assert(sizeof(Buffer) == 64);

// A block with room for `bytes`, one reference. Throws Error where the system has no memory for it.
[[nodiscard]] Buffer* acquire(std::int64_t bytes);

}  // namespace attune::detail
