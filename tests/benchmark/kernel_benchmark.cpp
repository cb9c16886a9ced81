// Times single kernels at the sizes of the `char` and `toy` configurations, on one thread, in
// float32. Counters: FLOP/s of products (2mnk; attention: whole scores), elements per second of the
// rest.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attune/array/array.h"
#include "attune/core/mask.h"
#include "attune/core/random.h"
#include "kernels/attention.h"
#include "kernels/binary.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/small_gemm.h"
#include "kernels/softmax.h"
#include "kernels/unary.h"

namespace attune::benchmarks {
namespace {

using benchmark::State;
using kernels::AttentionExtents;

Array random(const Shape& shape) {
  Array x = Array::uninitialized(shape, DType::float32);
  RandomCursor cursor(Randomness{}.stream("benchmark.kernel"), 0);
  for (float& value : x.mutable_data<float>()) value = static_cast<float>(2 * cursor.uniform() - 1);
  return x;
}

void count_operations(State& state, double operations) {
  state.counters["FLOP/s"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}
void count_elements(State& state, const Shape& shape) {
  state.SetItemsProcessed(state.iterations() * shape.size());
}

// A kernel without a state of its own: result = work().
template <class Work>
void measure(State& state, const Work& work) {
  for (auto _ : state) benchmark::DoNotOptimize(work());
}

struct Product {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;

  [[nodiscard]] std::string name() const {
    return std::string(transpose_a ? "T" : "N") + (transpose_b ? "T" : "N") + "/" +
           std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  }
  [[nodiscard]] double operations() const { return 2 * static_cast<double>(m * n * k); }
};

void gemm(State& state, const Product& product) {
  const auto& [transpose_a, transpose_b, m, n, k] = product;
  const Array a = random({m, k});
  const Array b = random({k, n});
  Array c = Array::zeros({m, n}, DType::float32);
  float* out = c.mutable_data<float>().data();
  for (auto _ : state) {
    kernels::gemm<float>(transpose_a, transpose_b, m, n, k, 1, a.data<float>().data(),
                         transpose_a ? m : k, b.data<float>().data(), transpose_b ? k : n, 0, out,
                         n);
    benchmark::ClobberMemory();
  }
  count_operations(state, product.operations());
}

// Operands packed beforehand; n and k are whole panels.
void multiply_panels(State& state, const Product& product) {
  const auto& [transpose_a, transpose_b, m, n, k] = product;
  const Array a = random({m, k});
  const Array b = random({k, n});
  Array c = Array::zeros({m, n}, DType::float32);
  float* out = c.mutable_data<float>().data();
  const kernels::LeftOperand<float> left{a.data<float>().data(), transpose_a ? 1 : k,
                                         transpose_a ? m : 1};
  for (auto _ : state) {
    kernels::multiply_panels<float>(m, n, k, left, b.data<float>().data(), n, out, n, false);
    benchmark::ClobberMemory();
  }
  count_operations(state, product.operations());
}

// Operands, memory and gradients of causal self-attention.
class AttentionProblem final {
 public:
  explicit AttentionProblem(const AttentionExtents& extents)
      : rows_{extents.batch, extents.query, extents.heads * extents.head_dim},
        query_(random(rows_)),
        key_(random(rows_)),
        value_(random(rows_)),
        dy_(random(rows_)),
        y_(random(rows_)),
        dquery_(random(rows_)),
        dkey_(random(rows_)),
        dvalue_(random(rows_)),
        probabilities_(random({extents.batch, extents.heads, extents.query,
                               kernels::padded_keys<float>(extents.key)})),
        statistics_(static_cast<std::size_t>(extents.heads)) {
    operands_.extents = extents;
    operands_.query = read(query_);
    operands_.key = read(key_);
    operands_.value = read(value_);
    operands_.scale = 0.2;
    operands_.mask = &mask_;
    memory_.probabilities = probabilities_.mutable_data<float>().data();
  }

  void forward(bool statistics) {
    const std::span<HeadStatistics> wanted =
        statistics ? std::span(statistics_) : std::span<HeadStatistics>();
    kernels::attention<float>(operands_, memory_, write(y_), wanted);
  }
  void backward() {
    kernels::attention_backward<float>(
        operands_, memory_, read(dy_),
        {.query = {write(dquery_)}, .key = {write(dkey_)}, .value = {write(dvalue_)}});
  }
  // Of the forward pass; the backward pass has four products instead of two.
  [[nodiscard]] double operations() const {
    const AttentionExtents& e = operands_.extents;
    return 4 * static_cast<double>(e.batch * e.heads * e.query * e.key * e.head_dim);
  }

 private:
  [[nodiscard]] kernels::HeadRows<const float> read(const Array& x) const {
    return {x.data<float>().data(), rows_[1] * rows_[2], rows_[2]};
  }
  [[nodiscard]] kernels::HeadRows<float> write(Array& x) const {
    return {x.mutable_data<float>().data(), rows_[1] * rows_[2], rows_[2]};
  }

  Shape rows_;
  Array query_, key_, value_, dy_, y_, dquery_, dkey_, dvalue_, probabilities_;
  std::vector<HeadStatistics> statistics_;
  Mask mask_ = Mask::causal();
  kernels::AttentionOperands<float> operands_;
  kernels::AttentionMemory<float> memory_;
};

void attention(State& state, const AttentionExtents& extents, bool statistics) {
  AttentionProblem problem(extents);
  for (auto _ : state) {
    problem.forward(statistics);
    benchmark::ClobberMemory();
  }
  count_operations(state, problem.operations());
}
void attention_backward(State& state, const AttentionExtents& extents) {
  AttentionProblem problem(extents);
  problem.forward(false);
  for (auto _ : state) {
    problem.backward();
    benchmark::ClobberMemory();
  }
  count_operations(state, 2 * problem.operations());
}

void softmax(State& state, const Shape& shape) {
  const Array x = random(shape);
  measure(state, [&] { return kernels::softmax(x); });
  count_elements(state, shape);
}
void softmax_backward(State& state, const Shape& shape) {
  const Array y = kernels::softmax(random(shape));
  const Array dy = random(shape);
  measure(state, [&] { return kernels::softmax_backward(y, dy); });
  count_elements(state, shape);
}
void layer_norm(State& state, const Shape& shape) {
  const Array x = random(shape);
  const Array gain = random({shape[1]});
  measure(state, [&] { return kernels::layer_norm(x, gain, Array(), 1e-5); });
  count_elements(state, shape);
}
void layer_norm_backward(State& state, const Shape& shape) {
  const Array x = random(shape);
  const Array gain = random({shape[1]});
  const Array dy = random(shape);
  const kernels::LayerNorm norm = kernels::layer_norm(x, gain, Array(), 1e-5);
  measure(state,
          [&] { return kernels::layer_norm_backward(x, gain, norm.mean, norm.rstd, dy, true); });
  count_elements(state, shape);
}
void gelu(State& state, const Shape& shape) {
  const Array x = random(shape);
  measure(state, [&] { return kernels::gelu_with_slope(x); });
  count_elements(state, shape);
}
void gelu_backward(State& state, const Shape& shape) {
  const Array slope = kernels::gelu_with_slope(random(shape)).slope;
  const Array dy = random(shape);
  measure(state, [&] { return kernels::chain(dy, slope); });
  count_elements(state, shape);
}
void dropout(State& state, const Shape& shape) {
  const Array x = random(shape);
  const RandomStream stream = Randomness{}.stream("benchmark.dropout");
  measure(state, [&] { return kernels::dropout(x, 0.1, stream, 0); });
  count_elements(state, shape);
}
void cross_entropy(State& state, const Shape& shape) {
  const Array logits = random(shape);
  std::vector<std::int32_t> targets;
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    targets.push_back(static_cast<std::int32_t>(row * 31 % shape[1]));
  }
  measure(state, [&] { return kernels::cross_entropy(logits, targets, 0, true); });
  count_elements(state, shape);
}
void adamw(State& state, const Shape& shape) {
  Array w = random(shape);
  const Array g = random(shape);
  Array m = Array::zeros(shape, DType::float32);
  Array v = Array::zeros(shape, DType::float32);
  kernels::AdamStep step{.lr = 1e-3,
                         .beta1 = 0.9,
                         .beta2 = 0.99,
                         .eps = 1e-8,
                         .decoupled_decay = 0.1,
                         .added_decay = 0,
                         .gradient_scale = 0.5,
                         .update = 1};
  for (auto _ : state) {
    kernels::adam<float>(step, w.mutable_data<float>(), g.data<float>(), m.mutable_data<float>(),
                         v.mutable_data<float>());
    ++step.update;
    benchmark::ClobberMemory();
  }
  count_elements(state, shape);
}

void register_products() {
  // Linear maps of `char` forward and dX, dW, the head, a large square; attention heads of `char`
  // and `toy`; decoding.
  const Product products[] = {
      {false, false, 768, 128, 128}, {false, true, 768, 128, 128}, {true, false, 768, 128, 128},
      {false, true, 768, 512, 128},  {false, true, 768, 128, 512}, {true, false, 128, 512, 768},
      {false, true, 768, 65, 128},   {false, false, 768, 128, 65}, {false, false, 1024, 1024, 1024},
      {false, true, 64, 64, 32},     {false, false, 64, 32, 64},   {true, false, 64, 32, 64},
      {false, false, 16, 16, 16},    {false, false, 16, 128, 128}, {false, false, 4, 128, 128},
      {false, false, 1, 128, 128}};
  for (const Product& product : products) {
    benchmark::RegisterBenchmark(("gemm/" + product.name()).c_str(), gemm, product);
  }
  const Product heads[] = {{false, false, 16, 64, 32},
                           {false, false, 64, 64, 32},
                           {false, false, 64, 32, 64},
                           {true, false, 64, 32, 64},
                           {false, false, 16, 16, 16}};
  for (const Product& product : heads) {
    benchmark::RegisterBenchmark(("multiply_panels/" + product.name()).c_str(), multiply_panels,
                                 product);
  }
}

// One configuration's kernels, on the rows of its whole batch.
void register_configuration(const std::string& name, const AttentionExtents& extents) {
  const std::int64_t rows = extents.batch * extents.query;
  const std::int64_t width = extents.heads * extents.head_dim;
  const Shape model{rows, width};
  const Shape hidden{rows, 4 * width};
  const Shape scores{extents.batch * extents.heads * extents.query, extents.key};
  const auto add = [&](const std::string& kernel, auto function, auto... arguments) {
    benchmark::RegisterBenchmark((kernel + "/" + name).c_str(), function, arguments...);
  };
  add("attention", attention, extents, false);
  add("attention_with_statistics", attention, extents, true);
  add("attention_backward", attention_backward, extents);
  add("softmax", softmax, scores);
  add("softmax_backward", softmax_backward, scores);
  add("layer_norm", layer_norm, model);
  add("layer_norm_backward", layer_norm_backward, model);
  add("gelu", gelu, hidden);
  add("gelu_backward", gelu_backward, hidden);
  add("dropout", dropout, model);
  add("cross_entropy", cross_entropy, Shape{rows, 65});
  add("adamw", adamw, Shape{4 * width, width});
}

}  // namespace
}  // namespace attune::benchmarks

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  attune::benchmarks::register_products();
  attune::benchmarks::register_configuration("char", {.batch = 12,
                                                      .heads = 4,
                                                      .kv_heads = 4,
                                                      .query = 64,
                                                      .key = 64,
                                                      .head_dim = 32,
                                                      .value_dim = 32});
  attune::benchmarks::register_configuration("toy", {.batch = 32,
                                                     .heads = 2,
                                                     .kv_heads = 2,
                                                     .query = 16,
                                                     .key = 16,
                                                     .head_dim = 16,
                                                     .value_dim = 16});
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
