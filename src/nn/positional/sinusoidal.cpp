#include <cmath>
#include <cstring>
#include <string>

#include "attune/core/error.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr double kBase = 10000;

// Row of position p:   pe[2k] = sin(p w_k)    pe[2k + 1] = cos(p w_k)    w_k = 10000^(-2k / model)
template <class T>
void fill_row(std::int32_t position, std::int64_t model, T* row) {
  for (std::int64_t k = 0; 2 * k < model; ++k) {
    const double angle =
        position * std::pow(kBase, -2 * static_cast<double>(k) / static_cast<double>(model));
    row[2 * k] = static_cast<T>(std::sin(angle));
    row[2 * k + 1] = static_cast<T>(std::cos(angle));
  }
}

// Fixed sinusoids (Vaswani et al. 2017, section 3.5), interleaved as in the paper: x_t sqrt(model)
// + pe[position_t]. The factor keeps the tokens, of deviation 0.02, from drowning in waves of
// amplitude 1.
class Sinusoidal final : public PositionalEncoding {
 public:
  Sinusoidal(const Scope& scope, const PositionalConfig& config)
      : model_(config.model),
        table_(Array::uninitialized(
            {tabulated_positions(config.block_size, config.model), config.model}, scope.dtype())) {
    dispatch(table_.dtype(), [&]<class T>() {
      T* rows = table_.mutable_data<T>().data();
      for (std::int64_t p = 0; p < table_.shape()[0]; ++p) {
        fill_row(static_cast<std::int32_t>(p), model_, rows + p * model_);
      }
    });
  }

  [[nodiscard]] std::string_view name() const override { return "sinusoidal"; }

  [[nodiscard]] EmbeddingTerm embedding_term(const Positions& positions,
                                             const Pass&) const override {
    return {std::sqrt(static_cast<double>(model_)), Var(rows_of(positions))};
  }
  [[nodiscard]] bool is_shift_invariant() const override { return false; }

 private:
  [[nodiscard]] Array rows_of(const Positions& positions) const {
    Array rows = Array::uninitialized({positions.batch, positions.time, model_}, table_.dtype());
    dispatch(table_.dtype(), [&]<class T>() {
      const T* known = table_.data<T>().data();
      T* row = rows.mutable_data<T>().data();
      for (const std::int32_t position : positions.values) {
        if (position >= 0 && position < table_.shape()[0]) {
          std::memcpy(row, known + position * model_, static_cast<std::size_t>(model_) * sizeof(T));
        } else {
          fill_row(position, model_, row);
        }
        row += model_;
      }
    });
    return rows;
  }

  std::int64_t model_;
  Array table_;  // [position, model]: positions met in training
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_sinusoidal(const Scope& scope,
                                                    const PositionalConfig& config,
                                                    const InitScheme&) {
  if (config.model % 2 != 0) {
    throw ConfigError("--pos sinusoidal: needs an even --n-embd, not " +
                      std::to_string(config.model));
  }
  return std::make_unique<Sinusoidal>(scope, config);
}

}  // namespace attune::positional
