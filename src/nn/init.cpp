#include "attune/nn/init.h"

#include <algorithm>
#include <cmath>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "nn/orthogonal.h"

namespace attune {
namespace {

// [out, in]; a vector counts as one row.
std::int64_t fan_out(const Shape& shape) { return shape.rank() < 2 ? 1 : shape[0]; }
std::int64_t fan_in(const Shape& shape) { return shape.last(); }

}  // namespace

Array Initializer::make(const Shape& shape, DType dtype, const RandomStream& stream) const {
  if (kind_ == Kind::constant) return Array::full(shape, value_, dtype);
  if (kind_ == Kind::orthogonal) return orthogonal_matrix(shape, value_, stream).cast(dtype);
  Array array = Array::uninitialized(shape, DType::float64);
  if (kind_ == Kind::identity) {
    const auto diagonal = static_cast<std::uint64_t>(fan_in(shape) + 1);
    std::uint64_t index = 0;
    for (double& value : array.mutable_data<double>()) value = index++ % diagonal == 0 ? 1 : 0;
    return array.cast(dtype);
  }
  std::uint64_t index = 0;
  for (double& value : array.mutable_data<double>()) {
    value = kind_ == Kind::normal ? value_ * stream.normal(index)
                                  : value_ * (2 * stream.uniform(index) - 1);
    ++index;
  }
  return array.cast(dtype);
}

double Initializer::variance(const Shape& shape) const {
  switch (kind_) {
    case Kind::constant:
    case Kind::identity:
      return 0;
    case Kind::normal:
      return value_ * value_;
    case Kind::uniform:
      return value_ * value_ / 3;
    case Kind::orthogonal:
      return value_ * value_ / static_cast<double>(std::max(fan_in(shape), fan_out(shape)));
  }
  throw InternalError("initializer: unknown kind");
}

std::vector<InitScheme::Info> InitScheme::list() {
  return {
      {"gpt2", "N(0, std^2); projections into the residual stream N(0, std^2 / (2 layers))"},
      {"normal", "N(0, std^2) everywhere"},
      {"xavier", "U(+-sqrt(6 / (in + out))), variance 2 / (in + out); embeddings N(0, std^2)"},
      {"kaiming", "N(0, 2 / in); embeddings N(0, std^2)"},
      {"pytorch",
       "U(+-1 / sqrt(in)), variance 1 / (3 in), as torch.nn.Linear; embeddings N(0, std^2)"},
      {"orthogonal",
       "orthonormal rows or columns, variance 1 / max(in, out); embeddings N(0, std^2)"},
      {"constant", "std everywhere: breaks no symmetry, nothing can be learned apart; for study"},
  };
}

InitScheme::InitScheme(std::string_view name, double std, std::int64_t layers)
    : name_(name), std_(std), layers_(layers) {
  std::vector<std::string> names;
  for (const Info& info : list()) names.push_back(info.name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw ConfigError("--init: '" + name_ + "' is unknown" + did_you_mean(name, names));
  }
}

Initializer InitScheme::operator()(Role role, const Shape& shape) const {
  const auto in = static_cast<double>(fan_in(shape));
  const auto out = static_cast<double>(fan_out(shape));
  if (name_ == "constant") return Initializer::constant(std_);
  if (role == Role::embedding || name_ == "normal") return Initializer::normal(std_);
  if (name_ == "gpt2") {
    const auto branches = 2 * static_cast<double>(std::max<std::int64_t>(layers_, 1));
    return Initializer::normal(role == Role::residual_projection ? std_ / std::sqrt(branches)
                                                                 : std_);
  }
  if (name_ == "xavier") return Initializer::uniform(std::sqrt(6 / (in + out)));
  if (name_ == "kaiming") return Initializer::normal(std::sqrt(2 / in));
  if (name_ == "pytorch") return Initializer::uniform(1 / std::sqrt(in));
  return Initializer::orthogonal(1);
}

}  // namespace attune
