#pragma once

#include <cstdint>
#include <vector>

#include "attune/array/array.h"
#include "attune/nn/positions.h"
#include "attune/ops/key_value_buffer.h"

namespace attune {

// Keys and values of the tokens a model has already read, layer by layer: a mutable buffer with a
// capacity, of which the first `filled` tokens are valid. A pass appends its tokens to every layer
// and then advances once. Appending and advancing cost what is new, not what is there.
class KvCache final {
 public:
  KvCache(int layers, std::int64_t batch, std::int64_t capacity, std::int64_t key_width,
          std::int64_t value_width, DType dtype);

  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t filled() const { return filled_; }
  // All tokens that it was given, those included that it forgot: the position of the next one
  // where positions are 0, 1, ...
  [[nodiscard]] std::int64_t read() const { return forgotten_ + filled_; }
  [[nodiscard]] Positions positions() const;  // of the filled tokens; a copy

  // Writes keys [batch, time, key_width] and values [batch, time, value_width] behind the filled
  // part of a layer. Throws before anything is written: ValueError beyond the capacity or the
  // layers, ShapeError for another batch, width or dtype.
  void append(int layer, const Array& keys, const Array& values);
  // Where attention reads a layer's keys and values.
  [[nodiscard]] const KeyValueBuffer& layer(int layer) const { return layers_[index_of(layer)]; }
  // Copies of the keys and values of a layer with `time` tokens behind the filled part: [batch,
  // filled + time, width].
  [[nodiscard]] Array keys(int layer, std::int64_t time) const;
  [[nodiscard]] Array values(int layer, std::int64_t time) const;
  // Counts the appended tokens as filled. Throws ShapeError for positions of another batch,
  // ValueError beyond the capacity.
  void advance(const Positions& positions);
  // Forgets the oldest `count` filled tokens and moves the others to the front: what a window of
  // sight has left behind. Costs what stays. Throws ValueError for more than are filled.
  void forget(std::int64_t count);
  // Forgets all tokens, also that they were read.
  void clear();

 private:
  [[nodiscard]] std::size_t index_of(int layer) const;

  std::int64_t batch_;
  std::int64_t capacity_;
  std::int64_t filled_ = 0;
  std::int64_t forgotten_ = 0;
  std::int64_t position_rows_ = 1;       // 1 until examples stand at positions of their own
  std::vector<std::int32_t> positions_;  // [batch, capacity]
  std::vector<KeyValueBuffer> layers_;
};

}  // namespace attune
