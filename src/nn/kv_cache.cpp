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

void require_fit(const char* what, const Array& x, std::int64_t time, const Array& buffer) {
  const Shape expected = buffer.shape().with(1, time);
  if (x.shape() == expected && x.dtype() == buffer.dtype()) return;
  throw ShapeError("KV-cache: " + std::string(what) + " are " + std::string(to_string(x.dtype())) +
                   " " + to_string(x.shape()) + ", expected " +
                   std::string(to_string(buffer.dtype())) + " " + to_string(expected));
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

std::size_t KvCache::index_of(int layer) const {
  if (layer < 0 || layer >= static_cast<int>(layers_.size())) {
    throw ValueError("KV-cache: layer " + std::to_string(layer) + " is outside its " +
                     std::to_string(layers_.size()) + " layers");
  }
  return static_cast<std::size_t>(layer);
}

void KvCache::append(int layer, const Array& keys, const Array& values) {
  Layer& buffers = layers_[index_of(layer)];
  const std::int64_t time = keys.shape()[1];
  require_fit("keys", keys, time, buffers.keys);
  require_fit("values", values, time, buffers.values);
  if (filled_ + time > capacity_) {
    throw ValueError("KV-cache: " + std::to_string(time) + " tokens do not fit behind " +
                     std::to_string(filled_) + " filled of a capacity of " +
                     std::to_string(capacity_));
  }
  copy_rows(keys, 0, buffers.keys, filled_, time);
  copy_rows(values, 0, buffers.values, filled_, time);
}

Array KvCache::keys(int layer, std::int64_t time) const {
  return head_of(layers_[index_of(layer)].keys, time);
}

Array KvCache::values(int layer, std::int64_t time) const {
  return head_of(layers_[index_of(layer)].values, time);
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
