#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace attune {

// Bump allocation of closures; chunks are kept from one use of the tape to the next.
class ClosureArena final {
 public:
  void* reserve(std::size_t bytes, std::size_t alignment) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    if (chunk_ == chunks_.size() || used_ + bytes > chunks_[chunk_].bytes) {
      if (chunk_ < chunks_.size()) ++chunk_;
      if (chunk_ == chunks_.size() || chunks_[chunk_].bytes < bytes) {
        const std::size_t size = std::max(kChunkBytes, bytes);
        chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk_),
                       {std::make_unique<std::byte[]>(size), size});
      }
      used_ = 0;
    }
    void* place = chunks_[chunk_].memory.get() + used_;
    used_ += bytes;
    return place;
  }
  void reset() { chunk_ = used_ = 0; }

 private:
  static constexpr std::size_t kChunkBytes = 64 * 1024;
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
  };
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

}  // namespace attune
