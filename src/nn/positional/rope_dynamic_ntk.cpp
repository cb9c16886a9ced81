#include <algorithm>
#include <string>

#include "attune/core/error.h"
#include "attune/nn/kv_cache.h"
#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "nn/positional/rotation_table.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

// Positions that a row of the batch reaches over, padding at its first position included.
std::int64_t span_of(const Positions& a, const Positions& b, std::int64_t row) {
  if (a.time == 0 || b.time == 0) return 0;
  const auto [a_low, a_high] = std::minmax_element(a.row(row), a.row(row) + a.time);
  const auto [b_low, b_high] = std::minmax_element(b.row(row), b.row(row) + b.time);
  return std::int64_t{std::max(*a_high, *b_high)} - std::min(*a_low, *b_low) + 1;
}

// Rotary position embedding whose base grows with the text (dynamic NTK; Peng et al. 2023, section
// 3.3): plain up to the trained length n0; a text of n > n0 tokens has the base
//   10000 (s n / n0 - (s - 1))^(width / (width - 2))
// A longer text turns all its keys anew, so a cache holds them unrotated. But what the layers above
// the first have made of earlier tokens was made under the base of a shorter text, and no cache
// can mend that: beyond n0 a text has to be read again as a whole.
class RopeDynamicNtk final : public PositionalEncoding {
 public:
  RopeDynamicNtk(const Scope& scope, const PositionalConfig& config)
      : dtype_(scope.dtype()),
        width_(config.head_dim),
        trained_length_(config.block_size),
        extension_(config.extension),
        plain_(dtype_, rotary_pairs(width_, kRotaryBase), trained_length_) {}

  [[nodiscard]] std::string_view name() const override { return "rope-dynamic-ntk"; }

  void prepare(PositionContext& context, const Pass&) const override {
    const Positions keys = context.key();
    std::vector<std::int64_t> lengths;
    for (std::int64_t row = 0; row < std::max(context.query.batch, keys.batch); ++row)
      lengths.push_back(span_of(context.query, keys, row));
    const std::int64_t longest = *std::ranges::max_element(lengths);
    if (longest > trained_length_ && context.cache && context.cache->filled() > 0) {
      throw ValueError(
          "rope-dynamic-ntk: a KV-cache is right up to the trained length alone, "
          "--block-size " +
          std::to_string(trained_length_) + ", and this text has " + std::to_string(longest) +
          " tokens: read it again as a whole");
    }
    context.query_rotation = rotation(context.query, lengths, longest);
    context.key_rotation = rotation(keys, lengths, longest);
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

  [[nodiscard]] CachePolicy cache_policy() const override { return CachePolicy::raw_keys; }
  [[nodiscard]] std::int64_t cache_limit() const override { return trained_length_; }
  [[nodiscard]] bool depends_on_trained_length() const override { return true; }

 private:
  [[nodiscard]] Rotation rotation(const Positions& positions,
                                  const std::vector<std::int64_t>& lengths,
                                  std::int64_t longest) const {
    if (longest <= trained_length_) return plain_(positions);
    std::vector<Var> cosines, sines;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const std::int32_t* row = positions.row(static_cast<std::int64_t>(b));
      const Rotation one = table_for(lengths[b])({1, positions.time, {row, row + positions.time}});
      cosines.emplace_back(one.cosines);
      sines.emplace_back(one.sines);
    }
    return {concat(cosines, 0).value(), concat(sines, 0).value()};
  }
  [[nodiscard]] RotationTable table_for(std::int64_t length) const {
    const double ratio = static_cast<double>(std::max(length, trained_length_)) /
                         static_cast<double>(trained_length_);
    const double base = stretched_base(width_, extension_ * ratio - (extension_ - 1));
    return {dtype_, rotary_pairs(width_, base), 0};
  }

  DType dtype_;
  std::int64_t width_;
  std::int64_t trained_length_;
  double extension_;
  RotationTable plain_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_rope_dynamic_ntk(const Scope& scope,
                                                          const PositionalConfig& config,
                                                          const InitScheme&) {
  require_even_head("rope-dynamic-ntk", config.head_dim);
  return std::make_unique<RopeDynamicNtk>(scope, config);
}

}  // namespace attune::positional
