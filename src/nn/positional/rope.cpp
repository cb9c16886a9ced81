#include <algorithm>
#include <cmath>
#include <string>

#include "attune/core/error.h"
#include "attune/ops/attention.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr double kBase = 10000;

// Rotary position embedding (Su et al. 2021): feature pair (k, k + head_dim/2) of every query and
// key head is rotated by the angle position * 10000^(-2k / head_dim), half-split as in GPT-NeoX and
// Llama. A score then depends on the distance alone: <R_i q, R_j k> = <q, R_(j-i) k>. Values are
// not rotated. Angles are computed in float64.
class Rope final : public PositionalEncoding {
 public:
  Rope(const Scope& scope, const PositionalConfig& config) : dtype_(scope.dtype()) {
    for (std::int64_t k = 0; 2 * k < config.head_dim; ++k) {
      frequencies_.push_back(
          std::pow(kBase, -2 * static_cast<double>(k) / static_cast<double>(config.head_dim)));
    }
    known_ = rotation_of(Positions::range(0, config.block_size));
  }

  [[nodiscard]] std::string_view name() const override { return "rope"; }

  void prepare(PositionContext& context, const Pass&) const override {
    context.query_rotation = rotation_of(context.query);
    context.key_rotation =
        context.new_key == context.query ? context.query_rotation : rotation_of(context.new_key);
  }
  [[nodiscard]] Var transform_query(const Var& x, std::int64_t heads,
                                    const PositionContext& context) const override {
    return rotate_pairs(x, heads, context.query_rotation.cosines, context.query_rotation.sines,
                        false);
  }
  [[nodiscard]] Var transform_key(const Var& x, std::int64_t heads,
                                  const PositionContext& context) const override {
    return rotate_pairs(x, heads, context.key_rotation.cosines, context.key_rotation.sines, false);
  }

 private:
  [[nodiscard]] Rotation rotation_of(const Positions& positions) const {
    const auto pairs = static_cast<std::int64_t>(frequencies_.size());
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
          for (std::size_t k = 0; k < frequencies_.size(); ++k) {
            cosine[k] = static_cast<T>(std::cos(position * frequencies_[k]));
            sine[k] = static_cast<T>(std::sin(position * frequencies_[k]));
          }
        }
        cosine += pairs;
        sine += pairs;
      }
    });
    return rotation;
  }

  DType dtype_;
  std::vector<double> frequencies_;  // [head_dim / 2]
  Rotation known_;                   // of the positions met in training
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_rope(const Scope& scope, const PositionalConfig& config,
                                              const InitScheme&) {
  if (config.head_dim % 2 != 0) {
    throw ConfigError("--pos rope: needs an even head width, not " +
                      std::to_string(config.head_dim) + " (--n-embd / --n-head)");
  }
  return std::make_unique<Rope>(scope, config);
}

}  // namespace attune::positional
