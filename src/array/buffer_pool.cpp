#include "attune/array/buffer_pool.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "array/buffer.h"
#include "attune/array/array.h"
#include "attune/core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

// Every thread has a heap of free lists, one a size class. A block goes back to the heap it came
// from: freed by its own thread, onto the free list, without a lock; freed by another one, onto the
// heap's `returned` stack, which the owner empties when a list runs dry. So the traffic of a
// training step repeats exactly, and what its second step needed is there for all later ones. A
// heap outlives its thread and serves the next one.
namespace attune {
namespace detail {
namespace {

constexpr std::int64_t kSmallest = 64;
constexpr int kClasses = 4 * 36;  // four a power of two from 64 bytes to 2^41
constexpr std::int64_t kFlushBytes = 1 << 16;

// The class of a size, and the bytes blocks of a class have: 64, 80, 96, 112, 128, 160, ...
int class_of(std::int64_t bytes) {
  if (bytes <= kSmallest) return 0;
  const auto size = static_cast<std::uint64_t>(bytes - 1);
  const int exponent = static_cast<int>(std::bit_width(size)) - 1;  // 2^exponent <= bytes - 1
  const int quarter = static_cast<int>((size >> (exponent - 2)) & 3);
  return (exponent - 6) * 4 + quarter + 1;
}
std::int64_t bytes_of_class(int size_class) {
  const int exponent = size_class / 4 + 6;
  return (std::int64_t{4} + size_class % 4) << (exponent - 2);
}

std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};
std::atomic<std::int64_t> system_allocations{0};
std::atomic<std::int64_t> system_bytes{0};

}  // namespace

struct Heap {
  std::array<Buffer*, kClasses> free{};
  std::atomic<Buffer*> returned{nullptr};
  // Live bytes not yet added to the global count; written by the owner's thread alone.
  std::atomic<std::int64_t> pending{0};

  void count(std::int64_t bytes) {
    const std::int64_t sum = pending.load(std::memory_order_relaxed) + bytes;
    if (sum > -kFlushBytes && sum < kFlushBytes) {
      pending.store(sum, std::memory_order_relaxed);
    } else {
      pending.store(0, std::memory_order_relaxed);
      publish(sum);
    }
  }
  static void publish(std::int64_t bytes) {
    const std::int64_t now = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = peak_bytes.load(std::memory_order_relaxed);
    while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void take_returned() {
    Buffer* buffer = returned.exchange(nullptr, std::memory_order_acquire);
    while (buffer) {
      Buffer* next = buffer->next;
      buffer->next = free[static_cast<std::size_t>(buffer->size_class)];
      free[static_cast<std::size_t>(buffer->size_class)] = buffer;
      buffer = next;
    }
  }
};

namespace {

struct Heaps {
  std::mutex mutex;
  std::vector<Heap*> all;
  std::vector<Heap*> idle;  // whose threads have ended
};
// Never destroyed: arrays may be freed while the process ends.
Heaps& heaps() {
  static Heaps* instance = new Heaps;
  return *instance;
}

constinit thread_local Heap* current_heap = nullptr;

struct HeapReturn {
  ~HeapReturn() {
    Heaps& registry = heaps();
    const std::lock_guard lock(registry.mutex);
    registry.idle.push_back(current_heap);
    current_heap = nullptr;
  }
};

Heap& heap_of_thread() {
  if (current_heap == nullptr) {
    Heaps& registry = heaps();
    const std::lock_guard lock(registry.mutex);
    if (registry.idle.empty()) {
      registry.all.push_back(new Heap);
      registry.idle.push_back(registry.all.back());
    }
    current_heap = registry.idle.back();
    registry.idle.pop_back();
    static thread_local HeapReturn at_thread_end;
  }
  return *current_heap;
}

Buffer* allocate(int size_class) {
  const std::int64_t bytes = bytes_of_class(size_class);
  void* memory = ::operator new(sizeof(Buffer) + static_cast<std::size_t>(bytes),
                                std::align_val_t(alignof(Buffer)), std::nothrow);
  if (memory == nullptr) {
    throw Error("out of memory: the system has no " + std::to_string(bytes) +
                " bytes for an array");
  }
  system_allocations.fetch_add(1, std::memory_order_relaxed);
  system_bytes.fetch_add(bytes, std::memory_order_relaxed);
  auto* buffer = ::new (memory) Buffer;
  buffer->size_class = size_class;
  return buffer;
}

}  // namespace

Buffer* acquire(std::int64_t bytes) {
  if (bytes > bytes_of_class(kClasses - 1)) {
    throw Error("out of memory: an array of " + std::to_string(bytes) + " bytes was asked for");
  }
  const int size_class = class_of(bytes);
  Heap& heap = heap_of_thread();
  Buffer*& list = heap.free[static_cast<std::size_t>(size_class)];
  if (list == nullptr) heap.take_returned();
  Buffer* buffer = list;
  if (buffer) {
    list = buffer->next;
  } else {
    buffer = allocate(size_class);
  }
  buffer->owner = &heap;
  buffer->references.store(1, std::memory_order_relaxed);
  heap.count(bytes_of_class(size_class));
  // Only what was asked for may be touched, not the rest of the size class.
  ASAN_POISON_MEMORY_REGION(payload(buffer), static_cast<std::size_t>(bytes_of_class(size_class)));
  ASAN_UNPOISON_MEMORY_REGION(payload(buffer), static_cast<std::size_t>(bytes));
#ifndef NDEBUG
  std::memset(payload(buffer), 0xff, static_cast<std::size_t>(bytes));  // NaN
#endif
  return buffer;
}

std::byte* payload(Buffer* buffer) noexcept {
  return reinterpret_cast<std::byte*>(buffer) + sizeof(Buffer);
}

void retain(Buffer* buffer) noexcept { buffer->references.fetch_add(1, std::memory_order_relaxed); }

bool is_shared(const Buffer* buffer) noexcept {
  return buffer->references.load(std::memory_order_acquire) > 1;
}

void release(Buffer* buffer) noexcept {
  // The last holder needs no atomic subtraction: nobody else can add a reference any more.
  if (buffer->references.load(std::memory_order_acquire) != 1 &&
      buffer->references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  const std::int64_t bytes = bytes_of_class(buffer->size_class);
  ASAN_POISON_MEMORY_REGION(payload(buffer), static_cast<std::size_t>(bytes));
  Heap* heap = buffer->owner;
  if (heap == current_heap) {
    heap->count(-bytes);
    Buffer*& list = heap->free[static_cast<std::size_t>(buffer->size_class)];
    buffer->next = list;
    list = buffer;
    return;
  }
  if (current_heap) {
    current_heap->count(-bytes);
  } else {
    Heap::publish(-bytes);
  }
  buffer->next = heap->returned.load(std::memory_order_relaxed);
  while (!heap->returned.compare_exchange_weak(buffer->next, buffer, std::memory_order_release,
                                               std::memory_order_relaxed)) {
  }
}

}  // namespace detail

namespace buffer_pool {

Statistics statistics() {
  detail::Heaps& registry = detail::heaps();
  const std::lock_guard lock(registry.mutex);
  std::int64_t live = detail::live_bytes.load();
  for (const detail::Heap* heap : registry.all) live += heap->pending.load();
  return {live, std::max(detail::peak_bytes.load(), live), detail::system_allocations.load(),
          detail::system_bytes.load()};
}

void reset_peak() { detail::peak_bytes.store(statistics().live_bytes); }

void trim() {
  detail::Heap& heap = detail::heap_of_thread();
  heap.take_returned();
  for (detail::Buffer*& list : heap.free) {
    while (list) {
      detail::Buffer* buffer = list;
      list = buffer->next;
      detail::system_bytes.fetch_sub(detail::bytes_of_class(buffer->size_class));
      ASAN_UNPOISON_MEMORY_REGION(
          detail::payload(buffer),
          static_cast<std::size_t>(detail::bytes_of_class(buffer->size_class)));
      ::operator delete(buffer, std::align_val_t(alignof(detail::Buffer)));
    }
  }
}

}  // namespace buffer_pool
}  // namespace attune
