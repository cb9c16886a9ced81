#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attune/array/array.h"
#include "attune/core/random.h"

namespace attune {

// How one parameter gets its first value. Random values are drawn in float64 at the element's index
// of the stream and rounded to the dtype, so a float32 model is the rounded float64 one.
class Initializer final {
 public:
  [[nodiscard]] static Initializer constant(double value) { return {Kind::constant, value}; }
  // N(0, deviation^2)
  [[nodiscard]] static Initializer normal(double deviation) { return {Kind::normal, deviation}; }
  // U(-bound, bound): variance bound^2 / 3
  [[nodiscard]] static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
  // gain times a matrix with orthonormal rows or columns, whichever are fewer, uniformly
  // distributed (QR of a normal matrix with the signs of R's diagonal; Saxe et al. 2014, Mezzadri
  // 2007): variance gain^2 / max(rows, columns).
  [[nodiscard]] static Initializer orthogonal(double gain) { return {Kind::orthogonal, gain}; }

  // Ones on the diagonal of a matrix, zeros elsewhere.
  [[nodiscard]] static Initializer identity() { return {Kind::identity, 1}; }

  [[nodiscard]] Array make(const Shape& shape, DType dtype, const RandomStream& stream) const;
  // The variance of an element of a [out, in] matrix; 0 where nothing is drawn.
  [[nodiscard]] double variance(const Shape& shape) const;

 private:
  enum class Kind : std::uint8_t { constant, normal, uniform, orthogonal, identity };
  Initializer(Kind kind, double value) : kind_(kind), value_(value) {}
  Kind kind_;
  double value_;
};

// What a parameter is for; schemes treat roles differently.
enum class Role : std::uint8_t {
  weight,  // a linear map inside a branch: queries, keys, values, the first feed-forward map
  residual_projection,  // the last linear map of a branch, which writes into the residual stream
  embedding,            // token and position tables
  head,                 // the map to logits, where it is not tied to the embedding
};

// A named recipe for all parameters of a model of a given depth. Biases start at 0 and gains at 1
// in all of them.
//   gpt2        N(0, std^2); projections into the residual stream N(0, std^2 / (2 layers))
//               (Radford et al. 2019)
//   normal      N(0, std^2)
//   xavier      U(+-sqrt(6 / (in + out))), variance 2 / (in + out)     (Glorot & Bengio 2010)
//   kaiming     N(0, 2 / in)                                           (He et al. 2015)
//   pytorch     U(+-1 / sqrt(in)), variance 1 / (3 in)                 (default of torch.nn.Linear)
//   orthogonal  gain 1, variance 1 / max(in, out)                      (Saxe et al. 2014)
//   constant    std everywhere: breaks no symmetry; for study
// Linear maps are [out, in]. Embeddings are N(0, std^2) in all but constant.
class InitScheme final {
 public:
  // std: --init-std. Throws ConfigError for an unknown name, with the nearest ones.
  InitScheme(std::string_view name, double std, std::int64_t layers);
  [[nodiscard]] Initializer operator()(Role role, const Shape& shape) const;

  struct Info {
    std::string name;
    std::string description;
  };
  [[nodiscard]] static std::vector<Info> list();

 private:
  std::string name_;
  double std_;
  std::int64_t layers_;
};

}  // namespace attune
