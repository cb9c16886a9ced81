#include "attune/ops/arithmetic.h"
#include "attune/ops/unary.h"
#include "observe/gradcheck_suite_cases.h"

// Element-wise functions and arithmetic.
namespace attune::gradcheck_suite {
namespace {

using Unary = Var (*)(const Var&);
using Binary = Var (*)(const Var&, const Var&);

void add_unary_case(Cases& cases, const char* name, Unary function, Array input) {
  cases.push_back({name, [function](Values x) { return function(x[0]); }, {std::move(input)}});
}

struct Shapes {
  const char* name;
  Shape a;
  Shape b;
};

// Every way two operands can meet: alike, a row, a column, both sides broadcast, a new leading
// axis, scalars, nothing.
std::vector<Shapes> broadcasts() {
  return {
      {"", {3, 5}, {3, 5}},
      {" broadcast row", {3, 5}, {5}},
      {" broadcast row, left", {5}, {3, 5}},
      {" broadcast column", {3, 5}, {3, 1}},
      {" broadcast both", {3, 1}, {1, 5}},
      {" broadcast middle", {2, 3, 5}, {2, 1, 5}},
      {" broadcast leading", {2, 3, 5}, {3, 5}},
      {" broadcast scalar", {3, 5}, {}},
      {" broadcast scalar, left", {}, {3, 5}},
      {" one element", {1}, {1}},
  };
}

void add_binary_cases(Cases& cases, const std::string& name, Binary function) {
  for (const Shapes& shapes : broadcasts()) {
    // A divisor stays away from 0; a and b never meet, where maximum and minimum have their kink.
    cases.push_back({name + shapes.name,
                     [function](Values x) { return function(x[0], x[1]); },
                     {away_from_zero(shapes.a, 1), away_from_zero(shapes.b, 2)}});
  }
}

}  // namespace

void add_unary(Cases& cases) {
  const Shape shape{3, 7};
  const Array any = uniform(shape, 1, -3, 3);
  const Array positive = uniform(shape, 2, 0.2, 3);
  const Array kinked = away_from_zero(shape, 3);
  add_unary_case(cases, "exp", exp, any);
  add_unary_case(cases, "log", log, positive);
  add_unary_case(cases, "sqrt", sqrt, positive);
  add_unary_case(cases, "square", square, any);
  add_unary_case(cases, "abs", abs, kinked);
  add_unary_case(cases, "sin", sin, any);
  add_unary_case(cases, "cos", cos, any);
  add_unary_case(cases, "tanh", tanh, any);
  add_unary_case(cases, "sigmoid", sigmoid, any);
  add_unary_case(cases, "softplus", softplus, any);
  add_unary_case(cases, "relu", relu, kinked);
  add_unary_case(cases, "gelu", gelu, any);
  add_unary_case(cases, "gelu_tanh", gelu_tanh, any);
  add_unary_case(cases, "silu", silu, any);
  cases.push_back(
      {"swiglu", [](Values x) { return swiglu(x[0], x[1]); }, {any, uniform(shape, 4, -3, 3)}});
  cases.push_back({"swiglu of one", [](Values x) { return swiglu(x[0], x[0]); }, {any}});
}

void add_arithmetic(Cases& cases) {
  add_binary_cases(cases, "add", add);
  add_binary_cases(cases, "subtract", subtract);
  add_binary_cases(cases, "multiply", multiply);
  add_binary_cases(cases, "divide", divide);
  add_binary_cases(cases, "maximum", maximum);
  add_binary_cases(cases, "minimum", minimum);

  const Shape shape{3, 5};
  cases.push_back(uniform_case("add number", {shape}, [](Values x) { return add(x[0], 0.7); }));
  cases.push_back(
      uniform_case("multiply number", {shape}, [](Values x) { return multiply(x[0], -1.7); }));
  cases.push_back(uniform_case("negate", {shape}, [](Values x) { return negate(x[0]); }));
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.0}) {
    cases.push_back({"power " + std::to_string(static_cast<int>(exponent)),
                     [exponent](Values x) { return power(x[0], exponent); },
                     {away_from_zero(shape, 1)}});
  }
  cases.push_back(
      {"power 2.5", [](Values x) { return power(x[0], 2.5); }, {uniform(shape, 1, 0.2, 2)}});
  cases.push_back({"operators",
                   [](Values x) {
                     return (2 - x[0]) * x[1] / (3.0 * x[0] + x[1] / 2) + (1 + -x[0] * 2.0 - 0.5) -
                            x[1];
                   },
                   {uniform(shape, 1, 0.5, 1), uniform(shape, 2, 0.5, 1)}});
  cases.push_back(
      uniform_case("multiply by itself", {shape}, [](Values x) { return multiply(x[0], x[0]); }));
  cases.push_back(uniform_case("subtract itself, broadcast", {{3, 1}}, [](Values x) {
    return multiply(subtract(x[0], multiply(x[0], x[0])), x[0]);
  }));
}

}  // namespace attune::gradcheck_suite
