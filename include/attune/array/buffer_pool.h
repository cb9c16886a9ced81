#pragma once

#include <cstdint>

// The memory behind every Array: one process-wide pool, the only global of the library. Fresh pages
// cost more than the arithmetic at the sizes trained here, so a freed block goes back to the free
// lists of the thread that asked for it and is handed out again: after the second training step
// nothing is asked of the system any more. Blocks are aligned to 64 bytes and come in four sizes a
// power of two. Debug builds fill them with NaN.
namespace attune::buffer_pool {

struct Statistics {
  std::int64_t live_bytes;  // in Arrays now, rounded up to size classes
  std::int64_t peak_bytes;  // largest live_bytes since reset_peak(), to within 64 KiB a thread
  std::int64_t system_allocations;  // blocks asked of the system since the process began
  std::int64_t system_bytes;        // their sum, less what trim() gave back
};
[[nodiscard]] Statistics statistics();
void reset_peak();
// Gives what lies free in the calling thread's lists back to the system.
void trim();

}  // namespace attune::buffer_pool
