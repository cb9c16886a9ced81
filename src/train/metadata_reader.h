#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// The metadata of a safetensors file of ours, as data/README.md tells it. Every refusal is an
// IoError that names file and key. Metadata and source must outlive it.
class MetadataReader final {
 public:
  MetadataReader(const std::map<std::string, std::string>& metadata, std::string_view source)
      : metadata_(metadata), source_(source) {}

  // `kind`: what a file without the key is not, as in "a checkpoint of a run".
  void check_version(const std::string& key, std::int64_t version, std::string_view kind) const;
  [[nodiscard]] const std::string& text(const std::string& key) const;
  // A whole number from 0 to `most`.
  [[nodiscard]] std::int64_t count(const std::string& key, std::int64_t most) const;
  // Infinities and NaN included.
  [[nodiscard]] double number(const std::string& key) const;
  [[nodiscard]] std::vector<std::string> vocabulary(const std::string& key) const;

 private:
  [[noreturn]] void fail(std::string_view key, std::string_view reason) const;

  const std::map<std::string, std::string>& metadata_;
  std::string_view source_;
};

}  // namespace attune
