#include <cmath>
#include <cstdlib>

#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

// 2^(-8h/n) for h = 1 .. n.
void append_geometric(std::int64_t n, std::int64_t stride, std::int64_t count,
                      std::vector<double>& slopes) {
  for (std::int64_t i = 0; i < count; ++i) {
    slopes.push_back(std::exp2(-8 * static_cast<double>(i * stride + 1) / static_cast<double>(n)));
  }
}

// The author's rule: for a power of two the geometric sequence; otherwise that of the power below,
// then every second slope of the power above.
std::vector<double> slopes_of(std::int64_t heads) {
  std::int64_t below = 1;
  while (2 * below <= heads) below *= 2;
  std::vector<double> slopes;
  append_geometric(below, 1, below, slopes);
  append_geometric(2 * below, 2, heads - below, slopes);
  return slopes;
}

// Attention with linear biases (Press et al. 2022): score_ij - slope_h |i - j|, after scaling;
// nothing is learned.
class Alibi final : public PositionalEncoding {
 public:
  Alibi(const Scope& scope, std::int64_t heads)
      : dtype_(scope.dtype()), slopes_(slopes_of(heads)) {}

  [[nodiscard]] std::string_view name() const override { return "alibi"; }
  [[nodiscard]] bool acts_on_scores() const override { return true; }

  void prepare(PositionContext& context, const Pass&) const override {
    auto [keys, first, count] = context.distances();
    Array table = Array::uninitialized({static_cast<std::int64_t>(slopes_.size()), count}, dtype_);
    dispatch(dtype_, [&]<class T>() {
      T* element = table.mutable_data<T>().data();
      for (const double slope : slopes_) {
        for (std::int64_t d = first; d < first + count; ++d)
          *element++ = static_cast<T>(-slope * static_cast<double>(std::abs(d)));
      }
    });
    context.distance_table = Var(std::move(table));
    context.first_distance = first;
    context.distance_keys = std::move(keys);
  }

 private:
  DType dtype_;
  std::vector<double> slopes_;  // [heads]
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_alibi(const Scope& scope, const PositionalConfig& config,
                                               const InitScheme&) {
  return std::make_unique<Alibi>(scope, config.heads);
}

}  // namespace attune::positional
