#pragma once

#include <stdexcept>
#include <string>

namespace attune {

// Everything Attune throws on purpose derives from Error. what() is one line that names the
// operation or option, the value found and what was expected; it is written to be shown to a person
// as it is.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller's mistakes.
class ShapeError final : public Error {  // shapes or dtypes that do not fit each other
 public:
  using Error::Error;
};
class ValueError final : public Error {  // a value outside its domain: an index, a rate, a label
 public:
  using Error::Error;
};
class ConfigError final : public Error {  // an option or a combination of options: exit code 2
 public:
  using Error::Error;
};
class UsageError final
    : public Error {  // an object used out of order: a second backward, a dead tape
 public:
  using Error::Error;
};

// The environment: a file that is missing, damaged or cannot be written; data that does not fit.
// Exit code 1.
class IoError final : public Error {
 public:
  using Error::Error;
};

// A mistake in Attune itself; worth a report.
class InternalError final : public Error {
 public:
  using Error::Error;
};

}  // namespace attune
