#include <string>

#include "attune/core/error.h"
#include "attune/nn/embedding.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

// A learned vector for each position of the trained context (Gehring et al. 2017; Radford et al.
// 2018):
//   x_t + table[position_t].   Parameter: weight [block_size, model].
class Learned final : public PositionalEncoding {
 public:
  Learned(const Scope& scope, const PositionalConfig& config, const InitScheme& init)
      : table_(scope, config.block_size, config.model, init), limit_(config.block_size) {}

  [[nodiscard]] std::string_view name() const override { return "learned"; }

  [[nodiscard]] EmbeddingTerm embedding_term(const Positions& positions,
                                             const Pass& pass) const override {
    for (const std::int32_t position : positions.values) {
      if (position < 0 || position >= limit_) {
        throw ValueError("learned positions: position " + std::to_string(position) +
                         " is outside the table of --block-size " + std::to_string(limit_));
      }
    }
    const Shape shape =
        positions.batch == 1 ? Shape{positions.time} : Shape{positions.batch, positions.time};
    return {1, table_(positions.values, shape, pass)};
  }

  [[nodiscard]] std::int64_t position_limit() const override { return limit_; }
  [[nodiscard]] bool is_shift_invariant() const override { return false; }

 private:
  Embedding table_;
  std::int64_t limit_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_learned(const Scope& scope, const PositionalConfig& config,
                                                 const InitScheme& init) {
  return std::make_unique<Learned>(scope, config, init);
}

}  // namespace attune::positional
