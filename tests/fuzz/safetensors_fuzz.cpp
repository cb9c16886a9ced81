#include <cstring>

#include "attune/train/safetensors.h"
#include "fuzz.h"

namespace attune::fuzz {
namespace {

// A file whose length is right, so that the header itself is reached: JSON up to the first NUL,
// then data.
std::string with_length(std::string_view bytes) {
  const std::string_view header = bytes.substr(0, bytes.find('\0'));
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += header;
  if (header.size() < bytes.size()) file += bytes.substr(header.size() + 1);
  return file;
}

void read(std::string_view bytes) {
  TensorFile file;
  try {
    file = decode_safetensors(bytes, "input");
  } catch (const IoError& error) {
    require_one_line(error);
    return;
  }
  std::int64_t data_bytes = 0;
  for (const auto& [name, array] : file.tensors) data_bytes += array.bytes();
  require(data_bytes <= static_cast<std::int64_t>(bytes.size()),
          "arrays are no larger than the file");

  // Writing is a function of names, shapes, dtypes, elements and metadata: equal bytes, equal
  // files.
  const std::string written = encode_safetensors(file);
  const TensorFile again = decode_safetensors(written, "what was written");
  require(again.metadata == file.metadata, "metadata reads back");
  require(again.tensors.size() == file.tensors.size(), "every tensor reads back");
  require(encode_safetensors(again) == written, "names, shapes and elements read back");
  const std::string_view data(written);
  require(data_bytes == 0 || data.substr(data.size() - static_cast<std::size_t>(data_bytes)) ==
                                 bytes.substr(bytes.size() - static_cast<std::size_t>(data_bytes)),
          "elements are written as they were read");
}

}  // namespace
}  // namespace attune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = attune::fuzz::text_of(data, size);
  attune::fuzz::read(bytes);
  attune::fuzz::read(attune::fuzz::with_length(bytes));
  return 0;
}
