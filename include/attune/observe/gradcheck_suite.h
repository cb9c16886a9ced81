#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/autodiff/gradcheck.h"
#include "attune/autodiff/parameter.h"
#include "attune/nn/pass.h"

// Every backward pass of the library against finite differences, as `attune gradcheck` runs it.
namespace attune {

// The forward pass of a layer or model: its inputs and its parameters, as the pass sees them, to
// one output of any shape.
using ModuleFunction = std::function<Var(std::span<const Var> inputs, const Pass& pass)>;

// f as a function of `inputs` arrays followed by the values of all parameters of the store, so that
// gradcheck differentiates by both. A call sets the parameters to what it is given, and they stay
// so. The backward pass must run before the next call. `pass` says how f runs (training, masks);
// its tape is not used. The store must outlive the result.
[[nodiscard]] DifferentiableFunction with_parameters(ParameterStore& store, std::size_t inputs,
                                                     ModuleFunction f, const Pass& pass = {});

// What a case's function refers to: a layer and its parameters.
class GradcheckSubject {
 public:
  virtual ~GradcheckSubject() = default;
};

struct GradcheckCase {
  std::string name;  // the function, then what is special: "softmax", "add broadcast [3, 1] [5]",
                     // "layer multi_head_attention rope"
  DifferentiableFunction function;
  std::vector<Array> inputs;  // float64, away from kinks
  int directions = 0;         // random directions through all inputs; 0: every element of each
  std::unique_ptr<GradcheckSubject> subject = nullptr;  // null: the function stands alone
};

// Every function of attune/ops in each of its forms, every layer, small whole models.
[[nodiscard]] std::vector<GradcheckCase> gradcheck_cases();

struct GradcheckRow {
  std::string name;
  double max_error = 0;  // as in GradcheckResult; infinite where the case threw
  std::string worst;     // where: "input 0 [3, 5] at 2: analytic 0.25, numeric 0.5"
  bool passed = false;
};
struct GradcheckReport {
  double tolerance = 0;
  std::vector<GradcheckRow> rows;

  [[nodiscard]] std::size_t failures() const;
  // Something was checked and nothing failed.
  [[nodiscard]] bool passed() const { return !rows.empty() && failures() == 0; }
};

// One row a case, in their order. A case that throws has failed; its message is the row's `worst`.
[[nodiscard]] GradcheckReport run_gradcheck(std::span<const GradcheckCase> cases, double tolerance);

struct ParameterCheck {
  double tolerance = 1e-6;
  int directions = 2;       // through each parameter
  std::uint64_t seed = 0;   // of the directions
  std::string_view only{};  // parameters whose name contains this
};
// Differentiates a scalar loss by every parameter of a float64 store that is not frozen, one row a
// parameter: the tape's gradient against central differences along random unit directions through
// that parameter. A difference is taken with steps of 1e-4, 1e-5 and 1e-6 and the best of them
// counts: a long step meets curvature and the kinks of relu, a short one rounding, and a wrong
// gradient is wrong with all. Errors are relative to the larger slope, or to what a random
// direction sees of the gradient where that is larger.
// The loss is deterministic; it takes the pass it is given, which is `pass` and a tape or none.
[[nodiscard]] GradcheckReport gradcheck_parameters(ParameterStore& store,
                                                   const std::function<Var(const Pass&)>& loss,
                                                   const Pass& pass, const ParameterCheck& options);

// Gives every parameter a value at which its gradient is far from 0, unlike many a first value:
// matrices [..., columns] get N(0, 1 / columns), vectors N(0, 1/100) on top of what they hold.
void spread_parameters(ParameterStore& store, std::uint64_t seed);

// The table: name, error, verdict. What failed stands in full in the last lines, as in
// "gradcheck: softmax is wrong: input 0 [3, 5] at 2: analytic 0.25, numeric 0.5".
[[nodiscard]] std::string to_text(const GradcheckReport& report);

}  // namespace attune
