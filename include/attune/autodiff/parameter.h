#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

#include "attune/array/array.h"

namespace attune {

// What training may do with a parameter.
struct ParameterOptions {
  bool decays =
      true;  // weight decay applies: weights and embeddings, not biases, gains or bias tables
  bool optional = false;  // may go untouched by a training step (an expert that was not chosen)
};

// A named, learned array.
class Parameter final {
 public:
  Parameter(std::string name, std::int64_t index, Array value, ParameterOptions options);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // Place in the creation order of its store.
  [[nodiscard]] std::int64_t index() const { return index_; }
  [[nodiscard]] const Array& value() const { return value_; }
  [[nodiscard]] const Shape& shape() const { return value_.shape(); }
  [[nodiscard]] DType dtype() const { return value_.dtype(); }
  [[nodiscard]] const ParameterOptions& options() const { return options_; }

  // Replaces the value. Throws ShapeError where shape or dtype differ.
  void set_value(Array value);
  // The value for updating in place. Where someone holds the old value (a snapshot, a tape that was
  // not spent), the parameter gets storage of its own first and theirs stays as it is.
  [[nodiscard]] Array& writable_value();

  // A frozen parameter enters a tape as a constant: no gradient, no update.
  void set_frozen(bool frozen) { frozen_ = frozen; }
  [[nodiscard]] bool is_frozen() const { return frozen_; }

 private:
  std::string name_;
  std::int64_t index_;
  Array value_;
  ParameterOptions options_;
  bool frozen_ = false;
};

// Owns the parameters of a model, in the order of their creation. Addresses stay valid.
class ParameterStore final {
 public:
  ParameterStore() = default;
  // At most so many numbers in all parameters together; whoever creates some checks before it takes
  // the memory.
  explicit ParameterStore(std::int64_t most_elements) : most_elements_(most_elements) {}

  // Throws ConfigError where a parameter of that many numbers would be one too many.
  void require_room(std::string_view name, std::int64_t elements) const;
  // Throws ConfigError where the name is taken or require_room() does.
  Parameter& create(std::string name, Array value, ParameterOptions options = {});

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(parameters_.size()); }
  // Numbers in all parameters together.
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] Parameter& operator[](std::int64_t index) {
    return parameters_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Parameter& operator[](std::int64_t index) const {
    return parameters_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] Parameter* find(std::string_view name);  // null: none of that name
  [[nodiscard]] const Parameter* find(std::string_view name) const;

  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }

  // FNV-1a over names, shapes and little-endian values in creation order, 16 hex digits: equal
  // hashes mean bitwise equal models.
  [[nodiscard]] std::string hash() const;

 private:
  std::int64_t most_elements_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t elements_ = 0;
  std::deque<Parameter> parameters_;
  std::unordered_map<std::string, std::int64_t> index_of_;
};

}  // namespace attune
