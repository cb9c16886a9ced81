#include "attune/ops/key_value_buffer.h"

#include <string>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "kernels/key_value_blocks.h"
#include "ops/attention_check.h"

namespace attune {
namespace {

void require_fit(const char* what, const Array& x, const Shape& expected, DType dtype) {
  if (x.shape() == expected && x.dtype() == dtype) return;
  throw ShapeError(fmt::format("KV-cache: {} are {} {}, expected {} {}", what, to_string(x.dtype()),
                               to_string(x.shape()), to_string(dtype), to_string(expected)));
}

Array uninitialized_elements(std::int64_t count, DType dtype) {
  return Array::uninitialized({count}, dtype);
}

}  // namespace

KeyValueBuffer::KeyValueBuffer(std::int64_t batch, std::int64_t capacity, std::int64_t key_width,
                               std::int64_t value_width, DType dtype)
    : batch_(batch),
      capacity_(capacity),
      key_width_(key_width),
      value_width_(value_width),
      keys_(uninitialized_elements(kernels::count_key_elements(batch, capacity, key_width), dtype)),
      values_(uninitialized_elements(dispatch(dtype,
                                              [&]<class T>() {
                                                return kernels::count_value_elements<T>(
                                                    batch, capacity, value_width);
                                              }),
                                     dtype)) {}

void KeyValueBuffer::write(std::int64_t first, const Array& keys, const Array& values) {
  const std::int64_t time = keys.shape().rank() == 3 ? keys.shape()[1] : 0;
  require_fit("keys", keys, {batch_, time, key_width_}, dtype());
  require_fit("values", values, {batch_, time, value_width_}, dtype());
  if (first < 0 || first + time > capacity_) {
    throw ValueError(
        fmt::format("KV-cache: {} tokens do not fit behind {} filled of a capacity of {}", time,
                    first, capacity_));
  }
  dispatch(dtype(), [&]<class T>() {
    const kernels::KeyValueBlocks<T> blocks{keys_.mutable_data<T>().data(),
                                            values_.mutable_data<T>().data(), capacity_, key_width_,
                                            value_width_};
    kernels::write_tokens<T>(batch_, first, time, keys.data<T>().data(), values.data<T>().data(),
                             blocks);
  });
}

Array KeyValueBuffer::copy_keys(std::int64_t time) const {
  Array keys = Array::uninitialized({batch_, time, key_width_}, dtype());
  dispatch(dtype(), [&]<class T>() {
    const kernels::KeyValueBlocks<const T> blocks{keys_.data<T>().data(), nullptr, capacity_,
                                                  key_width_, value_width_};
    kernels::read_keys<T>(blocks, batch_, time, keys.mutable_data<T>().data());
  });
  return keys;
}

Array KeyValueBuffer::copy_values(std::int64_t time) const {
  Array values = Array::uninitialized({batch_, time, value_width_}, dtype());
  dispatch(dtype(), [&]<class T>() {
    const kernels::KeyValueBlocks<const T> blocks{nullptr, values_.data<T>().data(), capacity_,
                                                  key_width_, value_width_};
    kernels::read_values<T>(blocks, batch_, time, values.mutable_data<T>().data());
  });
  return values;
}

Array attention_over_cache(const Array& query, const KeyValueBuffer& buffer, std::int64_t time,
                           const Array& bias, const AttentionOptions& options) {
  if (is_composed(options)) {
    return attention_textbook(query, buffer.copy_keys(time), buffer.copy_values(time), bias,
                              options)
        .value();
  }
  if (time < 0 || time > buffer.capacity()) {
    throw ValueError(fmt::format("attention: {} tokens of a KV-cache with a capacity of {}", time,
                                 buffer.capacity()));
  }
  const kernels::AttentionExtents extents = check_attention(
      "attention", {query.shape(), query.dtype()},
      {{buffer.batch(), time, buffer.key_width()}, buffer.dtype()},
      {{buffer.batch(), time, buffer.value_width()}, buffer.dtype()}, bias, options);
  const std::int64_t query_width = query.shape()[2];
  const std::int64_t width = extents.heads * extents.value_dim;
  Array output = Array::uninitialized({extents.batch, extents.query, width}, query.dtype());
  dispatch(query.dtype(), [&]<class T>() {
    const kernels::AttentionOperands<T> operands{
        .extents = extents,
        .query = {query.data<T>().data(), extents.query * query_width, query_width},
        .key = {},
        .value = {},
        .bias = bias.is_null() ? nullptr : bias.data<T>().data(),
        .bias_per_example = !bias.is_null() && bias.shape()[0] == extents.batch,
        .distance = distance_table<T>(
            options.distance_bias.table.value(), options.distance_bias.first,
            options.distance_bias.query_positions, options.distance_bias.key_positions, extents),
        .scale = attention_scale(extents, options),
        .softcap = options.softcap,
        .mask = options.mask,
        .dropout_rate = options.dropout.rate,
        .dropout_stream = options.dropout.stream,
        .first_example = options.dropout.first_example};
    kernels::attention_over_blocks<T>(
        operands,
        {buffer.keys_.data<T>().data(), buffer.values_.data<T>().data(), buffer.capacity(),
         buffer.key_width(), buffer.value_width()},
        {output.mutable_data<T>().data(), extents.query * width, width}, options.statistics);
  });
  return output;
}

}  // namespace attune
