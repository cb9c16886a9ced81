#include "train/metadata_reader.h"

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "train/vocabulary_json.h"

namespace attune {
namespace {

// What format_float writes, infinities and NaN included.
std::optional<double> parse_any_float(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return parse_float(text);
}

}  // namespace

void MetadataReader::check_version(const std::string& key, std::int64_t version,
                                   std::string_view kind) const {
  if (!metadata_.contains(key))
    throw IoError(fmt::format("{}: metadata has no {}: not {}", source_, key, kind));
  const std::int64_t found = count(key, std::numeric_limits<std::int64_t>::max());
  if (found != version) fail(key, fmt::format("is {}, this program reads {}", found, version));
}

void MetadataReader::fail(std::string_view key, std::string_view reason) const {
  throw IoError(fmt::format("{}: metadata {} {}", source_, printable(key), reason));
}

const std::string& MetadataReader::text(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) fail(key, "is missing");
  return found->second;
}

std::int64_t MetadataReader::count(const std::string& key, std::int64_t most) const {
  const auto value = parse_integer(text(key));
  if (!value || *value < 0 || *value > most)
    fail(key, fmt::format("is not a whole number from 0 to {}", most));
  return *value;
}

double MetadataReader::number(const std::string& key) const {
  const auto value = parse_any_float(text(key));
  if (!value) fail(key, "is not a number");
  return *value;
}

std::vector<std::string> MetadataReader::vocabulary(const std::string& key) const {
  auto vocabulary = parse_vocabulary(text(key));
  if (!vocabulary) fail(key, "is not a JSON array of strings");
  return std::move(*vocabulary);
}

}  // namespace attune
