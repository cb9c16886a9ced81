#pragma once

#include <cstdint>

#include "attune/autodiff/var.h"

// Element-wise functions of one argument. Any shape; the result has the shape and dtype of x. Where
// dloss/dy is 0, dloss/dx is 0 even if the slope is infinite or NaN, so that a branch that where()
// did not select takes no part.
namespace attune {

[[nodiscard]] Var exp(const Var& x);
[[nodiscard]] Var log(const Var& x);  // natural; -inf at 0, NaN below
[[nodiscard]] Var sqrt(const Var& x);
[[nodiscard]] Var square(const Var& x);
[[nodiscard]] Var abs(const Var& x);  // gradient 0 at 0
[[nodiscard]] Var sin(const Var& x);
[[nodiscard]] Var cos(const Var& x);
[[nodiscard]] Var tanh(const Var& x);
[[nodiscard]] Var sigmoid(const Var& x);   // 1 / (1 + e^-x), exact 0 and 1 in the limits
[[nodiscard]] Var softplus(const Var& x);  // ln(1 + e^x) without overflow

// Activations.
[[nodiscard]] Var relu(const Var& x);  // gradient 0 at 0
[[nodiscard]] Var gelu(const Var& x);  // x Phi(x), Phi the normal distribution (Hendrycks & Gimpel
                                       // 2016); PyTorch's default
[[nodiscard]] Var gelu_tanh(
    const Var& x);  // its tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
[[nodiscard]] Var silu(const Var& x);  // x sigmoid(x)

// One of them, for an operation that ends in it.
enum class ActivationFunction : std::uint8_t { relu, gelu, gelu_tanh, silu };

// silu(gate) up (Shazeer 2020) of one shape, in one pass; bit for bit the two operations.
[[nodiscard]] Var swiglu(const Var& gate, const Var& up);

}  // namespace attune
