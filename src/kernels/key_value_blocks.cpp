#include "kernels/key_value_blocks.h"

#include <algorithm>

#include "kernels/small_gemm.h"

namespace attune::kernels {

static_assert(kBlockTokens % kPanel<float> == 0 && kBlockTokens % kPanel<double> == 0);

std::int64_t count_key_elements(std::int64_t batch, std::int64_t capacity, std::int64_t width) {
  return batch * KeyValueBlocks<float>::blocks(capacity) * width * kBlockTokens;
}

template <std::floating_point T>
std::int64_t count_value_elements(std::int64_t batch, std::int64_t capacity, std::int64_t width) {
  return batch * capacity * width + kPanel<T>;
}

template <std::floating_point T>
void write_tokens(std::int64_t batch, std::int64_t first, std::int64_t time, const T* keys,
                  const T* values, const KeyValueBlocks<T>& blocks) {
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = first; t < first + time; ++t, keys += blocks.key_width) {
      T* column = blocks.key(b, t, 0);
      for (std::int64_t c = 0; c < blocks.key_width; ++c) column[c * kBlockTokens] = keys[c];
    }
    const std::int64_t count = time * blocks.value_width;
    std::copy_n(values, count, blocks.value(b, first, 0));
    values += count;
  }
}

template <std::floating_point T>
void read_keys(const KeyValueBlocks<const T>& blocks, std::int64_t batch, std::int64_t time,
               T* keys) {
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < time; ++t, keys += blocks.key_width) {
      const T* column = blocks.key(b, t, 0);
      for (std::int64_t c = 0; c < blocks.key_width; ++c) keys[c] = column[c * kBlockTokens];
    }
  }
}

template <std::floating_point T>
void read_values(const KeyValueBlocks<const T>& blocks, std::int64_t batch, std::int64_t time,
                 T* values) {
  for (std::int64_t b = 0; b < batch; ++b)
    values = std::copy_n(blocks.value(b, 0, 0), time * blocks.value_width, values);
}

template std::int64_t count_value_elements<float>(std::int64_t, std::int64_t, std::int64_t);
template std::int64_t count_value_elements<double>(std::int64_t, std::int64_t, std::int64_t);
template void write_tokens<float>(std::int64_t, std::int64_t, std::int64_t, const float*,
                                  const float*, const KeyValueBlocks<float>&);
template void write_tokens<double>(std::int64_t, std::int64_t, std::int64_t, const double*,
                                   const double*, const KeyValueBlocks<double>&);
template void read_keys<float>(const KeyValueBlocks<const float>&, std::int64_t, std::int64_t,
                               float*);
template void read_keys<double>(const KeyValueBlocks<const double>&, std::int64_t, std::int64_t,
                                double*);
template void read_values<float>(const KeyValueBlocks<const float>&, std::int64_t, std::int64_t,
                                 float*);
template void read_values<double>(const KeyValueBlocks<const double>&, std::int64_t, std::int64_t,
                                  double*);

}  // namespace attune::kernels
