#include "attune/nn/scope.h"

namespace attune {

Scope Scope::operator/(std::string_view name) const {
  return Scope(*store_, seed_, dtype_,
               path_.empty() ? std::string(name) : path_ + "." + std::string(name));
}

Scope Scope::operator/(std::int64_t index) const { return *this / std::to_string(index); }

Parameter& Scope::parameter(std::string_view name, const Shape& shape, const Initializer& init,
                            ParameterOptions options) const {
  const std::string full = (*this / name).path();
  store_->require_room(full, shape.size());
  return store_->create(full, init.make(shape, dtype_, stream(name)), options);
}

RandomStream Scope::stream(std::string_view name) const {
  return Randomness{seed_, 0}.stream("init." + (*this / name).path());
}

}  // namespace attune
