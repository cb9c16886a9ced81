#pragma once

#include <memory>
#include <vector>

#include "attune/core/thread_pool.h"
#include "configuration.h"

namespace attune::benchmarks {

// What a training step is measured by: its matrix products alone, through cblas_sgemm, on buffers
// that were touched before. The batch is cut into one part a thread; each thread does all products
// of its part, with gradients of weights of its own. Only a step that leaves out the masked half of
// the scores, or has better kernels than BLAS, can be faster.
//
// Products, with R = examples * context rows, each forward and twice backward (dX = dY W,
// dW = dY^T X): query, key, value, output, up and down of each layer, and the head. Of attention,
// for each example and head over whole context x context scores: Q K^T, P V, dO V^T, P^T dO, dS K,
// dS^T Q.
class Floor final {
 public:
  // The pool must outlive it.
  Floor(const Configuration& configuration, ThreadPool& pool);
  ~Floor();

  void run();

  // Floating-point operations of one run, counted as the products are made: 2mnk each.
  [[nodiscard]] double operations() const { return operations_; }

 private:
  class Part;

  ThreadPool& pool_;
  std::vector<std::unique_ptr<Part>> parts_;
  double operations_ = 0;
};

}  // namespace attune::benchmarks
