#include "nn/positional/rotation_table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "attune/core/error.h"
#include "nn/positional/schemes.h"

namespace attune::positional {

RotationTable::RotationTable(DType dtype, std::vector<Pair> pairs, std::int64_t known)
    : dtype_(dtype), pairs_(std::move(pairs)) {
  known = tabulated_positions(known, 2 * static_cast<std::int64_t>(pairs_.size()));
  if (known > 0) known_ = (*this)(Positions::range(0, known));
}

Rotation RotationTable::operator()(const Positions& positions) const {
  const auto pairs = static_cast<std::int64_t>(pairs_.size());
  const Shape shape{positions.batch, positions.time, pairs};
  Rotation rotation{Array::uninitialized(shape, dtype_), Array::uninitialized(shape, dtype_)};
  dispatch(dtype_, [&]<class T>() {
    T* cosine = rotation.cosines.mutable_data<T>().data();
    T* sine = rotation.sines.mutable_data<T>().data();
    const std::int64_t known = known_.cosines.is_null() ? 0 : known_.cosines.shape()[1];
    for (const std::int32_t position : positions.values) {
      if (position >= 0 && position < known) {
        const std::int64_t row = position * pairs;
        std::copy_n(known_.cosines.data<T>().data() + row, pairs, cosine);
        std::copy_n(known_.sines.data<T>().data() + row, pairs, sine);
      } else {
        for (std::size_t k = 0; k < pairs_.size(); ++k) {
          const double angle = position * pairs_[k].frequency;
          const double scale = std::exp(position * pairs_[k].growth);
          cosine[k] = static_cast<T>(scale * std::cos(angle));
          sine[k] = static_cast<T>(scale * std::sin(angle));
        }
      }
      cosine += pairs;
      sine += pairs;
    }
  });
  return rotation;
}

std::vector<RotationTable::Pair> rotary_pairs(std::int64_t width, double base, double stretch) {
  std::vector<RotationTable::Pair> pairs;
  for (std::int64_t k = 0; 2 * k < width; ++k) {
    const double exponent = -2 * static_cast<double>(k) / static_cast<double>(width);
    pairs.push_back({std::pow(base, exponent) / stretch});
  }
  return pairs;
}

double stretched_base(std::int64_t width, double extension) {
  if (width <= 2) return kRotaryBase;  // one pair alone, of frequency 1 under any base
  const auto d = static_cast<double>(width);
  return kRotaryBase * std::pow(extension, d / (d - 2));
}

void require_even_head(std::string_view scheme, std::int64_t head_dim) {
  if (head_dim % 2 == 0) return;
  throw ConfigError("--pos " + std::string(scheme) + ": needs an even head width, not " +
                    std::to_string(head_dim) + " (--n-embd / --n-head)");
}

}  // namespace attune::positional
