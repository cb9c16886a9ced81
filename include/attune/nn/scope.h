#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "attune/autodiff/parameter.h"
#include "attune/core/random.h"
#include "attune/nn/init.h"

namespace attune {

// A place in a model's tree of names: the one way parameters are made, so that names such as
// "block.0.attention.query.weight" arise in one place.
//   Scope root(store, seed, DType::float32);
//   Linear query(root / "block.0" / "attention" / "query", ...);
class Scope final {
 public:
  Scope(ParameterStore& store, std::uint64_t seed, DType dtype, std::string path = "")
      : store_(&store), seed_(seed), dtype_(dtype), path_(std::move(path)) {}

  [[nodiscard]] Scope operator/(std::string_view name) const;
  [[nodiscard]] Scope operator/(std::int64_t index) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] DType dtype() const { return dtype_; }

  // A new parameter <path>.<name>; its random values come from the stream "init.<path>.<name>" of
  // the seed.
  [[nodiscard]] Parameter& parameter(std::string_view name, const Shape& shape,
                                     const Initializer& init, ParameterOptions options = {}) const;
  // What a layer draws and does not learn: the stream "init.<path>.<name>" of the seed.
  [[nodiscard]] RandomStream stream(std::string_view name) const;

 private:
  ParameterStore* store_;
  std::uint64_t seed_;
  DType dtype_;
  std::string path_;
};

}  // namespace attune
