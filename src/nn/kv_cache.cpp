#include "attune/nn/kv_cache.h"

#include <algorithm>
#include <string>

#include "attune/core/error.h"
#include "attune/ops/shaping.h"

namespace attune {

KvCache::KvCache(int layers, std::int64_t batch, std::int64_t capacity, std::int64_t key_width,
                 std::int64_t value_width, DType dtype)
    : batch_(batch),
      capacity_(capacity),
      positions_(static_cast<std::size_t>(batch) * static_cast<std::size_t>(capacity)) {
  for (int layer = 0; layer < layers; ++layer)
    layers_.emplace_back(batch, capacity, key_width, value_width, dtype);
}

std::size_t KvCache::index_of(int layer) const {
  if (layer < 0 || layer >= static_cast<int>(layers_.size())) {
    throw ValueError("KV-cache: layer " + std::to_string(layer) + " is outside its " +
                     std::to_string(layers_.size()) + " layers");
  }
  return static_cast<std::size_t>(layer);
}

void KvCache::append(int layer, const Array& keys, const Array& values) {
  layers_[index_of(layer)].write(filled_, keys, values);
}

Array KvCache::keys(int layer, std::int64_t time) const {
  return layers_[index_of(layer)].copy_keys(filled_ + time);
}

Array KvCache::values(int layer, std::int64_t time) const {
  return layers_[index_of(layer)].copy_values(filled_ + time);
}

Positions KvCache::positions() const {
  Positions filled{position_rows_, filled_, {}};
  for (std::int64_t b = 0; b < position_rows_; ++b) {
    const auto row = positions_.begin() + b * capacity_;
    filled.values.insert(filled.values.end(), row, row + filled_);
  }
  return filled;
}

void KvCache::advance(const Positions& positions) {
  if (positions.batch != 1 && positions.batch != batch_) {
    throw ShapeError("KV-cache: positions of " + std::to_string(positions.batch) +
                     " examples, expected 1 or " + std::to_string(batch_));
  }
  if (positions.time > capacity_ - filled_) {
    throw ValueError("KV-cache: " + std::to_string(positions.time) +
                     " positions do not fit behind " + std::to_string(filled_) +
                     " filled of a capacity of " + std::to_string(capacity_));
  }
  const auto row_of = [&](std::int64_t b) { return positions_.begin() + b * capacity_; };
  if (positions.batch > position_rows_) {
    for (std::int64_t b = 1; b < batch_; ++b) std::copy_n(row_of(0), filled_, row_of(b));
    position_rows_ = batch_;
  }
  for (std::int64_t b = 0; b < position_rows_; ++b)
    std::copy_n(positions.row(b), positions.time, row_of(b) + filled_);
  filled_ += positions.time;
}

void KvCache::forget(std::int64_t count) {
  if (count < 0 || count > filled_) {
    throw ValueError("KV-cache: cannot forget " + std::to_string(count) + " of " +
                     std::to_string(filled_) + " tokens");
  }
  for (KeyValueBuffer& layer : layers_) {
    const auto rest = [&](const Array& rows) { return slice(rows, 1, count, filled_).value(); };
    layer.write(0, rest(layer.copy_keys(filled_)), rest(layer.copy_values(filled_)));
  }
  for (std::int64_t b = 0; b < position_rows_; ++b) {
    const auto row = positions_.begin() + b * capacity_;
    std::copy(row + count, row + filled_, row);
  }
  filled_ -= count;
  forgotten_ += count;
}

void KvCache::clear() {
  filled_ = 0;
  forgotten_ = 0;
  position_rows_ = 1;
}

}  // namespace attune
