#include <array>

#include "attune/core/random.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/columns.h"
#include "attune/ops/dropout.h"
#include "attune/ops/loss.h"
#include "attune/ops/matmul.h"
#include "attune/ops/norm.h"
#include "attune/ops/reduce.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "attune/ops/softmax.h"
#include "observe/gradcheck_suite_cases.h"

// Products, reductions, ops that move elements, softmaxes, norms and the loss.
namespace attune::gradcheck_suite {
namespace {

void add_matmul(Cases& cases, const std::string& form, const Shape& a, const Shape& b,
                Transpose transpose_a = Transpose::no, Transpose transpose_b = Transpose::no) {
  cases.push_back(uniform_case("matmul" + form, {a, b}, [transpose_a, transpose_b](Values x) {
    return matmul(x[0], x[1], transpose_a, transpose_b);
  }));
}

// Small weights and a bias away from zero keep relu's argument off its kink.
void add_linear_activation(Cases& cases, const std::string& name, ActivationFunction function) {
  const Array x = uniform({2, 3, 4}, 1);
  const Array weight = uniform({5, 4}, 2, -0.02, 0.02);
  cases.push_back({"linear_activation " + name,
                   [=](Values in) { return linear_activation(in[0], in[1], in[2], function); },
                   {x, weight, away_from_zero({5}, 3)}});
  cases.push_back({"linear_activation " + name + " no bias",
                   [=](Values in) { return linear_activation(in[0], in[1], {}, function); },
                   {uniform({2, 3, 4}, 4, 0.2, 1), uniform({5, 4}, 5, 0.2, 1)}});
}

// Over each axis of [2, 3, 5], with and without the axis kept.
template <class Reduce>
void add_axis_cases(Cases& cases, const std::string& name, Reduce reduce) {
  for (const int axis : {0, 1, 2, -1}) {
    for (const bool keep : {false, true}) {
      cases.push_back(uniform_case(name + " axis " + std::to_string(axis) + (keep ? " keep" : ""),
                                   {{2, 3, 5}},
                                   [=](Values x) { return reduce(x[0], axis, keep); }));
    }
  }
}

void add_where(Cases& cases, const std::string& form, const Shape& condition, const Shape& a,
               const Shape& b) {
  cases.push_back(uniform_case("where" + form, {a, b}, [keep = flags(condition, 7)](Values x) {
    return where(keep, x[0], x[1]);
  }));
}

void add_cross_entropy(Cases& cases, const std::string& form, double smoothing) {
  constexpr std::array<std::int32_t, 6> targets = {0, 4, kIgnore, 2, 4, kIgnore};
  cases.push_back({"cross_entropy" + form,
                   [=](Values x) { return cross_entropy(x[0], targets, smoothing).loss_sum; },
                   {uniform({2, 3, 5}, 1, -3, 3)}});
}

}  // namespace

void add_products(Cases& cases) {
  using enum Transpose;
  add_matmul(cases, "", {3, 4}, {4, 5});
  add_matmul(cases, " transpose_a", {4, 3}, {4, 5}, yes, no);
  add_matmul(cases, " transpose_b", {3, 4}, {5, 4}, no, yes);
  add_matmul(cases, " transpose both", {4, 3}, {5, 4}, yes, yes);
  add_matmul(cases, " batched", {2, 3, 4}, {2, 4, 5});
  add_matmul(cases, " batched transpose_a", {2, 4, 3}, {2, 4, 5}, yes, no);
  add_matmul(cases, " batched transpose_b", {2, 3, 4}, {2, 5, 4}, no, yes);
  add_matmul(cases, " batched transpose both", {2, 4, 3}, {2, 5, 4}, yes, yes);
  add_matmul(cases, " shared right", {2, 3, 4}, {4, 5});
  add_matmul(cases, " shared left", {3, 4}, {2, 4, 5});
  add_matmul(cases, " broadcast both", {2, 1, 3, 4}, {3, 4, 5});
  add_matmul(cases, " one element", {1, 1}, {1, 1});
  cases.push_back(uniform_case("matmul with itself", {{3, 3}},
                               [](Values x) { return matmul(x[0], x[0], no, yes); }));
  cases.push_back(
      uniform_case("linear", {{2, 3, 4}, {5, 4}}, [](Values x) { return linear(x[0], x[1]); }));
  cases.push_back(uniform_case("linear bias", {{2, 3, 4}, {5, 4}, {5}},
                               [](Values x) { return linear(x[0], x[1], x[2]); }));
  add_linear_activation(cases, "relu", ActivationFunction::relu);
  add_linear_activation(cases, "gelu", ActivationFunction::gelu);
  add_linear_activation(cases, "gelu_tanh", ActivationFunction::gelu_tanh);
  add_linear_activation(cases, "silu", ActivationFunction::silu);
}

void add_reductions(Cases& cases) {
  cases.push_back(uniform_case("sum", {{3, 5}}, [](Values x) { return sum(x[0]); }));
  cases.push_back(uniform_case("mean", {{3, 5}}, [](Values x) { return mean(x[0]); }));
  add_axis_cases(cases, "sum",
                 [](const Var& x, int axis, bool keep) { return sum(x, axis, keep); });
  add_axis_cases(cases, "mean",
                 [](const Var& x, int axis, bool keep) { return mean(x, axis, keep); });
  add_axis_cases(cases, "max", max);
  add_axis_cases(cases, "logsumexp", logsumexp);
  for (const int axis : {0, 1, 2}) {
    for (const bool reverse : {false, true}) {
      cases.push_back(
          uniform_case("cumsum axis " + std::to_string(axis) + (reverse ? " reverse" : ""),
                       {{2, 3, 5}}, [=](Values x) { return cumsum(x[0], axis, reverse); }));
    }
  }
}

void add_shaping(Cases& cases) {
  const Shape cube{2, 3, 5};
  const auto add = [&](const char* name, const Shape& shape, DifferentiableFunction function) {
    cases.push_back(uniform_case(name, {shape}, std::move(function)));
  };
  add("reshape", cube, [](Values x) { return reshape(x[0], Shape{5, 6}); });
  add("reshape inferred", cube, [](Values x) { return reshape(x[0], {3, -1}); });
  add("transpose", cube, [](Values x) { return transpose(x[0]); });
  add("transpose order", cube, [](Values x) { return transpose(x[0], {2, 0, 1}); });
  add("transpose order 4", {2, 3, 2, 5}, [](Values x) { return transpose(x[0], {0, 2, 1, 3}); });
  add("split_heads", {2, 3, 10}, [](Values x) { return split_heads(x[0], 2); });
  add("merge_heads", {2, 3, 5, 2}, [](Values x) { return merge_heads(x[0]); });
  for (const int axis : {0, 1, 2}) {
    cases.push_back(uniform_case("slice axis " + std::to_string(axis), {cube},
                                 [=](Values x) { return slice(x[0], axis, 1, 2); }));
    const Shape second = cube.with(axis, 4);
    cases.push_back(
        uniform_case("concat axis " + std::to_string(axis), {cube, second}, [=](Values x) {
          return concat({x[0], x[1], x[0]}, axis);
        }));
  }
  cases.push_back(uniform_case("concat span", {{3, 2}, {3, 5}, {3, 1}},
                               [](Values x) { return concat(x, -1); }));
  add("broadcast_to", {3, 1}, [](Values x) { return broadcast_to(x[0], {2, 3, 5}); });
  add("broadcast_to from scalar", {}, [](Values x) { return broadcast_to(x[0], {2, 3}); });

  add_where(cases, "", {3, 5}, {3, 5}, {3, 5});
  add_where(cases, " broadcast condition", {5}, {3, 5}, {3, 5});
  add_where(cases, " broadcast operands", {3, 5}, {}, {3, 1});
  cases.push_back(uniform_case("embedding", {{5, 3}, {2, 3}}, [](Values x) {
    const std::int32_t indices[] = {4, 1, 4, 0};
    return embedding(x[0], indices, {2, 2}, 1.7, x[1]);
  }));
  cases.push_back(uniform_case("gather_rows repeated", {{7, 3}}, [](Values x) {
    constexpr std::array<std::int32_t, 6> indices = {6, 0, 2, 2, 6, 2};
    return gather_rows(x[0], indices, {2, 3});
  }));
  const Columns columns{{1, 2, 2, 3}, {0, 3, 3, 1, 0, 1, 2, 2, 2, 3, 0, 1}};
  cases.push_back(uniform_case("take_columns", {{2, 2, 2, 4}},
                               [=](Values x) { return take_columns(x[0], columns); }));
  cases.push_back(uniform_case("sum_columns", {{2, 2, 2, 3}},
                               [=](Values x) { return sum_columns(x[0], columns, 4); }));
}

void add_normalisation(Cases& cases) {
  const Shape rows{2, 3, 5};
  cases.push_back(uniform_case("softmax", {rows}, [](Values x) { return softmax(x[0]); }));
  cases.push_back(uniform_case("masked_softmax", {rows}, [keep = flags({3, 5}, 4)](Values x) {
    return masked_softmax(x[0], keep);
  }));
  cases.push_back(uniform_case("masked_softmax empty row", {{2, 3}}, [](Values x) {
    return masked_softmax(x[0], Array::from({2, 3}, {1, 0, 1, 0, 0, 0}, DType::float64));
  }));
  cases.push_back(uniform_case("log_softmax", {rows}, [](Values x) { return log_softmax(x[0]); }));

  const Shape width{5};
  cases.push_back(uniform_case("layer_norm", {rows, width, width},
                               [](Values x) { return layer_norm(x[0], x[1], x[2]); }));
  cases.push_back(uniform_case("layer_norm gain", {rows, width},
                               [](Values x) { return layer_norm(x[0], x[1], {}); }));
  cases.push_back(uniform_case("layer_norm shift", {rows, width},
                               [](Values x) { return layer_norm(x[0], {}, x[1]); }));
  cases.push_back(
      uniform_case("layer_norm bare", {rows}, [](Values x) { return layer_norm(x[0], {}, {}); }));
  cases.push_back(
      uniform_case("rms_norm", {rows, width}, [](Values x) { return rms_norm(x[0], x[1]); }));
  cases.push_back(
      uniform_case("rms_norm bare", {rows}, [](Values x) { return rms_norm(x[0], {}); }));

  // Both outputs, and each alone.
  const auto product = [](const ResidualNorm& both) { return both.sum * both.normalised; };
  cases.push_back(uniform_case("add_layer_norm", {rows, rows, width, width}, [=](Values x) {
    return product(add_layer_norm(x[0], x[1], x[2], x[3]));
  }));
  cases.push_back(uniform_case("add_layer_norm gain", {rows, rows, width}, [=](Values x) {
    return product(add_layer_norm(x[0], x[1], x[2], {}));
  }));
  cases.push_back(uniform_case("add_layer_norm norm", {rows, rows}, [](Values x) {
    return add_layer_norm(x[0], x[1], {}, {}).normalised;
  }));
  cases.push_back(uniform_case("add_layer_norm sum", {rows, rows, width},
                               [](Values x) { return add_layer_norm(x[0], x[1], x[2], {}).sum; }));
  cases.push_back(uniform_case("add_rms_norm", {rows, rows, width},
                               [=](Values x) { return product(add_rms_norm(x[0], x[1], x[2])); }));
  cases.push_back(uniform_case("add_rms_norm norm", {rows, rows},
                               [](Values x) { return add_rms_norm(x[0], x[1], {}).normalised; }));
  cases.push_back(uniform_case("add_rms_norm sum", {rows, rows, width},
                               [](Values x) { return add_rms_norm(x[0], x[1], x[2]).sum; }));

  const RandomStream stream = Randomness{.seed = 5}.stream("gradcheck.dropout");
  for (const double rate : {0.4, 1.0}) {
    cases.push_back(uniform_case(rate < 1 ? "dropout" : "dropout all", {rows},
                                 [=](Values x) { return dropout(x[0], rate, stream, 3); }));
  }
  add_cross_entropy(cases, "", 0);
  add_cross_entropy(cases, " label smoothing", 0.2);
  // With another weight the gradient is not that of the value, as it should be.
  cases.push_back(uniform_case("attach_loss weight 0", {{2, 3}, {4}},
                               [](Values x) { return attach_loss(x[0], sum(x[1] * x[1]), 0); }));
}

}  // namespace attune::gradcheck_suite
