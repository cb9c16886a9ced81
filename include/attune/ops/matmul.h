#pragma once

#include "attune/autodiff/var.h"
#include "attune/ops/unary.h"

namespace attune {

enum class Transpose : bool { no, yes };

// Batched matrix product: a [..., m, k] times b [..., k, n] -> [..., m, n]; leading axes broadcast.
// transpose_a reads a as [..., k, m], transpose_b reads b as [..., n, k]. Both operands have rank 2
// or more. Throws ShapeError "matmul: a [2, 8, 16] has 16 columns but b [12, 4] has 12 rows".
[[nodiscard]] Var matmul(const Var& a, const Var& b, Transpose transpose_a = Transpose::no,
                         Transpose transpose_b = Transpose::no);

// x [..., in] times weight [out, in] transposed, plus bias [out] unless it is null -> [..., out]:
// one product over all rows.
[[nodiscard]] Var linear(const Var& x, const Var& weight, const Var& bias = {});

// activation(linear(x, weight, bias)), bit for bit, in fewer passes over memory: values go where
// the product was, and one pass back takes the slope and sums the bias' gradient.
[[nodiscard]] Var linear_activation(const Var& x, const Var& weight, const Var& bias,
                                    ActivationFunction activation);

}  // namespace attune
