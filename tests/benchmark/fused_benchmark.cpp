// Times fused operations beside the operations that they stand for, at the sizes of one shard of
// the `char`, `toy` and `wide` configurations, on one thread, in float32.

#include <cstdint>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "attune/autodiff/tape.h"
#include "attune/core/random.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/norm.h"
#include "attune/ops/unary.h"
#include "kernels/binary.h"
#include "kernels/elementwise.h"
#include "kernels/unary.h"

namespace attune::benchmarks {
namespace {

using benchmark::State;

Array random(const Shape& shape) {
  Array x = Array::uninitialized(shape, DType::float32);
  RandomCursor cursor(Randomness{}.stream("benchmark.fused"), 0);
  for (float& value : x.mutable_data<float>()) value = static_cast<float>(2 * cursor.uniform() - 1);
  return x;
}

// Forward and backward as in a pre-norm block: the norm feeds a branch that is added to the sum.
void residual_norm(State& state, const Shape& shape, bool fused) {
  const Array x = random(shape), branch = random(shape), seed = random(shape);
  const Array gain = random({shape.last()});
  Tape tape;
  for (auto _ : state) {
    tape.clear();
    const Var stream = tape.leaf(x), added = tape.leaf(branch), gains = tape.leaf(gain);
    ResidualNorm both;
    if (fused) {
      both = add_layer_norm(stream, added, gains, {});
    } else {
      both.sum = stream + added;
      both.normalised = layer_norm(both.sum, gains, {});
    }
    benchmark::DoNotOptimize(tape.backward(both.sum + both.normalised, seed));
  }
  state.SetItemsProcessed(state.iterations() * shape.size());
}

// What follows a product, and what precedes the products on the way back.
void bias_activation(State& state, const Shape& shape, bool bias, bool fused) {
  const Array product = random(shape), dy = random(shape);
  const Shape width{shape.last()};
  for (auto _ : state) {
    Array fresh = product.clone();
    if (fused) {
      auto [y, slope] = kernels::gelu_with_slope(std::move(fresh));
      benchmark::DoNotOptimize(kernels::biased_backward(dy, std::move(slope), bias));
    } else {
      const auto [y, slope] = kernels::gelu_with_slope(fresh);
      fresh = {};
      const Array dx = kernels::chain(dy, slope);
      if (bias) benchmark::DoNotOptimize(kernels::sum_to(dx, width));
    }
  }
  state.SetItemsProcessed(state.iterations() * shape.size());
}

void gated(State& state, const Shape& shape, bool fused) {
  const Array gate = random(shape), up = random(shape), seed = random(shape);
  Tape tape;
  for (auto _ : state) {
    tape.clear();
    const Var gates = tape.leaf(gate), ups = tape.leaf(up);
    benchmark::DoNotOptimize(tape.backward(fused ? swiglu(gates, ups) : silu(gates) * ups, seed));
  }
  state.SetItemsProcessed(state.iterations() * shape.size());
}

void register_configuration(const std::string& name, std::int64_t rows, std::int64_t width) {
  for (const bool fused : {false, true}) {
    const auto add = [&](const std::string& pass, auto function, auto... arguments) {
      benchmark::RegisterBenchmark((pass + "/" + name + (fused ? "/fused" : "/composed")).c_str(),
                                   function, arguments..., fused);
    };
    add("residual_norm", residual_norm, Shape{rows, width});
    add("activation", bias_activation, Shape{rows, 4 * width}, false);
    add("bias_activation", bias_activation, Shape{rows, 4 * width}, true);
    add("swiglu", gated, Shape{rows, 4 * width});
  }
}

}  // namespace
}  // namespace attune::benchmarks

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  attune::benchmarks::register_configuration("char", 192, 128);
  attune::benchmarks::register_configuration("toy", 128, 32);
  attune::benchmarks::register_configuration("wide", 512, 384);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
