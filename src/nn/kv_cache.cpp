#include "attune/nn/kv_cache.h"

#include <cstring>
#include <string>

#include "attune/core/error.h"

namespace attune {
namespace {

// Copies `time` rows an example from one [batch, rows, width] buffer to another.
void copy_rows(const Array& from, std::int64_t from_row, Array& to, std::int64_t to_row,
               std::int64_t time) {
  dispatch(to.dtype(), [&]<class T>() {
    const std::int64_t width = to.shape().last();
    const std::span<const T> source = from.data<T>();
    const std::span<T> target = to.mutable_data<T>();
    for (std::int64_t b = 0; b < to.shape()[0]; ++b) {
      std::memcpy(target.data() + (b * to.shape()[1] + to_row) * width,
                  source.data() + (b * from.shape()[1] + from_row) * width,
                  static_cast<std::size_t>(time * width) * sizeof(T));
    }
  });
}

}  // namespace

KvCache::KvCache(int layers, std::int64_t batch, std::int64_t capacity, std::int64_t key_width,
                 std::int64_t value_width, DType dtype)
    : batch_(batch), capacity_(capacity) {
  for (int layer = 0; layer < layers; ++layer) {
    layers_.push_back({Array::uninitialized({batch, capacity, key_width}, dtype),
                       Array::uninitialized({batch, capacity, value_width}, dtype)});
  }
}

void KvCache::append(int layer, const Array& keys, const Array& values) {
  Layer& buffers = layers_.at(static_cast<std::size_t>(layer));
  const std::int64_t time = keys.shape()[1];
  if (filled_ + time > capacity_) {
    throw ValueError("KV-cache: " + std::to_string(time) + " tokens do not fit behind " +
                     std::to_string(filled_) + " of " + std::to_string(capacity_));
  }
  copy_rows(keys, 0, buffers.keys, filled_, time);
  copy_rows(values, 0, buffers.values, filled_, time);
}

Array KvCache::keys(int layer, std::int64_t time) const {
  return head_of(layers_.at(static_cast<std::size_t>(layer)).keys, time);
}

Array KvCache::values(int layer, std::int64_t time) const {
  return head_of(layers_.at(static_cast<std::size_t>(layer)).values, time);
}

Array KvCache::head_of(const Array& buffer, std::int64_t time) const {
  Array head =
      Array::uninitialized({batch_, filled_ + time, buffer.shape().last()}, buffer.dtype());
  copy_rows(buffer, 0, head, 0, filled_ + time);
  return head;
}

void KvCache::advance(const Positions& positions) {
  positions_ = positions_.followed_by(positions);
  filled_ += positions.time;
}

void KvCache::clear() {
  filled_ = 0;
  positions_ = {};
}

}  // namespace attune
