#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "attune/core/error.h"

// What the fuzz targets share. A target reads hostile bytes as the program would: an exception of
// the documented kind is a right answer; any other one, a violated requirement, a report of a
// sanitizer, a hang and an allocation without bound are faults.
namespace attune::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fault: %s\n", what);
  std::abort();
}

inline void require_one_line(const Error& error) {
  const std::string_view line = error.what();
  const bool is_plain = std::ranges::none_of(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  require(is_plain && !line.empty(), "an error is one line");
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string_view()
                   : std::string_view(reinterpret_cast<const char*>(data), size);
}

// A file of these bytes that takes no room on a disk.
class MemoryFile final {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "there are files in memory");
    while (!bytes.empty()) {
      const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
      require(count > 0, "a file in memory can be written");
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace attune::fuzz
