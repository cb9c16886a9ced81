#include "attune/ops/attention.h"
#include "nn/positional/rotation_table.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

struct RopeForm {
  std::string_view name;
  bool interleaved = false;  // pairs (2k, 2k + 1) instead of (k, k + width / 2)
  double base = kRotaryBase;
  double stretch = 1;      // positions count as position / stretch
  std::int64_t width = 0;  // features of a head that are rotated; 0: all
};

// Rotary position embedding (Su et al. 2021): a pair k of features of every query and key head is
// rotated by the angle position * base^(-2k / width). A score then depends on the distance alone:
// <R_i q, R_j k> = <q, R_(j-i) k>. Values are not rotated. The forms differ in which features make
// a pair and in how fast the pairs turn.
class Rope final : public PositionalEncoding {
 public:
  Rope(const Scope& scope, const PositionalConfig& config, const RopeForm& form)
      : name_(form.name),
        interleaved_(form.interleaved),
        table_(
            scope.dtype(),
            rotary_pairs(form.width == 0 ? config.head_dim : form.width, form.base, form.stretch),
            config.block_size) {}

  [[nodiscard]] std::string_view name() const override { return name_; }

  void prepare(PositionContext& context, const Pass&) const override {
    context.query_rotation = table_(context.query);
    context.key_rotation =
        context.new_key == context.query ? context.query_rotation : table_(context.new_key);
  }
  [[nodiscard]] Var transform_query(const Var& x, std::int64_t heads,
                                    const PositionContext& context) const override {
    return rotate_pairs(x, heads, context.query_rotation.cosines, context.query_rotation.sines,
                        interleaved_);
  }
  [[nodiscard]] Var transform_key(const Var& x, std::int64_t heads,
                                  const PositionContext& context) const override {
    return rotate_pairs(x, heads, context.key_rotation.cosines, context.key_rotation.sines,
                        interleaved_);
  }

 private:
  std::string_view name_;
  bool interleaved_;
  RotationTable table_;
};

std::unique_ptr<PositionalEncoding> make(const Scope& scope, const PositionalConfig& config,
                                         const RopeForm& form) {
  if (form.width == 0) require_even_head(form.name, config.head_dim);
  return std::make_unique<Rope>(scope, config, form);
}

}  // namespace

// Half-split pairs, as in GPT-NeoX and Llama.
std::unique_ptr<PositionalEncoding> make_rope(const Scope& scope, const PositionalConfig& config,
                                              const InitScheme&) {
  return make(scope, config, {.name = "rope"});
}

// Neighbours, as in the paper and GPT-J.
std::unique_ptr<PositionalEncoding> make_rope_interleaved(const Scope& scope,
                                                          const PositionalConfig& config,
                                                          const InitScheme&) {
  return make(scope, config, {.name = "rope-interleaved", .interleaved = true});
}

// The first quarter of a head's features, as in GPT-NeoX (Black et al. 2022, section 3.1), rounded
// up to whole pairs.
std::unique_ptr<PositionalEncoding> make_rope_partial(const Scope& scope,
                                                      const PositionalConfig& config,
                                                      const InitScheme&) {
  if (config.head_dim < 2) require_even_head("rope-partial", config.head_dim);
  return make(scope, config, {.name = "rope-partial", .width = 2 * ((config.head_dim + 7) / 8)});
}

// Position interpolation (Chen et al. 2023): the extended context is squeezed into the plain one.
std::unique_ptr<PositionalEncoding> make_rope_pi(const Scope& scope, const PositionalConfig& config,
                                                 const InitScheme&) {
  return make(scope, config, {.name = "rope-pi", .stretch = config.extension});
}

std::unique_ptr<PositionalEncoding> make_rope_ntk(const Scope& scope,
                                                  const PositionalConfig& config,
                                                  const InitScheme&) {
  const double base = stretched_base(config.head_dim, config.extension);
  return make(scope, config, {.name = "rope-ntk", .base = base});
}

}  // namespace attune::positional
