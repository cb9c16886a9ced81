#include "attune/autodiff/parameter.h"

#include "attune/core/error.h"
#include "attune/core/hash.h"

namespace attune {

Parameter::Parameter(std::string name, std::int64_t index, Array value, ParameterOptions options)
    : name_(std::move(name)), index_(index), value_(std::move(value)), options_(options) {}

void Parameter::set_value(Array value) {
  if (value.shape() != value_.shape() || value.dtype() != value_.dtype()) {
    throw ShapeError(name_ + " is " + std::string(to_string(value_.dtype())) + " " +
                     to_string(value_.shape()) + ", not " + std::string(to_string(value.dtype())) +
                     " " + to_string(value.shape()));
  }
  value_ = std::move(value);
}

Array& Parameter::writable_value() {
  if (value_.is_shared()) value_ = value_.clone();
  return value_;
}

void ParameterStore::require_room(std::string_view name, std::int64_t elements) const {
  if (elements <= most_elements_ - elements_) return;
  throw ConfigError("parameter " + std::string(name) + " of " + std::to_string(elements) +
                    " numbers beside " + std::to_string(elements_) +
                    " others makes more than the " + std::to_string(most_elements_) +
                    " there may be");
}

Parameter& ParameterStore::create(std::string name, Array value, ParameterOptions options) {
  require_room(name, value.size());
  const std::int64_t index = count();
  if (!index_of_.emplace(name, index).second) {
    throw ConfigError("there are two parameters named '" + name + "'");
  }
  elements_ += value.size();
  return parameters_.emplace_back(std::move(name), index, std::move(value), options);
}

const Parameter* ParameterStore::find(std::string_view name) const {
  const auto found = index_of_.find(std::string(name));
  return found == index_of_.end() ? nullptr : &(*this)[found->second];
}

Parameter* ParameterStore::find(std::string_view name) {
  const auto found = index_of_.find(std::string(name));
  return found == index_of_.end() ? nullptr : &(*this)[found->second];
}

std::string ParameterStore::hash() const {
  Fnv1a hash;
  for (const Parameter& parameter : parameters_) {
    hash.add(parameter.name());
    for (const std::int64_t extent : parameter.shape())
      hash.add(static_cast<std::uint64_t>(extent));
    dispatch(parameter.dtype(),
             [&]<class T>() { hash.add(std::as_bytes(parameter.value().data<T>())); });
  }
  return to_hex(hash.value());
}

}  // namespace attune
