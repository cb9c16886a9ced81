#include <set>
#include <vector>

#include "attune/task/task.h"
#include "fuzz.h"

namespace attune::fuzz {
namespace {

// What a text is once it is read, on bytes instead of code points.
std::string normalised(std::string_view bytes) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes.substr(i, 2) != "\r\n") text += bytes[i];
  }
  return text;
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::set<std::string> characters_of(std::string_view text) {
  std::set<std::string> characters;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    for (end = begin + 1; end < text.size() && !starts_character(text[end]);) ++end;
    characters.emplace(text.substr(begin, end - begin));
  }
  return characters;
}

void require_windows_of(const std::string& text, const Task& task, Split split) {
  const auto block = static_cast<std::size_t>(task.time());
  std::vector<std::int32_t> tokens(block), targets(block);
  for (std::uint32_t example = 0; example < 4; ++example) {
    RandomCursor cursor(Randomness{1, 0}.stream("fuzz"), example);
    task.draw(split, cursor, tokens, targets);
    tokens.push_back(targets.back());
    require(text.find(task.decode(tokens)) != std::string::npos, "a window is a part of the text");
    require(std::equal(targets.begin(), targets.end(), tokens.begin() + 1),
            "targets are the characters that follow");
    tokens.pop_back();
  }
}

void read(std::string_view bytes, std::int64_t block) {
  const MemoryFile file(bytes);
  std::unique_ptr<Task> task;
  try {
    task = make_task({.name = "text", .block_size = block, .data = file.path()});
  } catch (const IoError& error) {
    require_one_line(error);
    return;
  }
  const std::string text = normalised(bytes);
  require(task->decode(task->encode(bytes)) == text, "a text reads as its characters");
  const std::vector<std::string> vocabulary = task->vocabulary_texts();
  const std::set<std::string> characters = characters_of(text);
  require(std::equal(vocabulary.begin(), vocabulary.end(), characters.begin(), characters.end()),
          "the vocabulary is the text's characters in their order");
  require_windows_of(text, *task, Split::train);
  require_windows_of(text, *task, Split::validation);
}

// Any bytes as a prompt.
void read_prompt(std::string_view bytes) {
  static const std::unique_ptr<Task> kTasks[] = {make_task({.name = "copy"}),
                                                 make_task({.name = "addition"})};
  for (const std::unique_ptr<Task>& task : kTasks) {
    try {
      const std::vector<std::int32_t> tokens = task->encode(bytes);
      require(task->encode(task->decode(tokens)) == tokens, "a prompt reads back");
    } catch (const ValueError&) {
    }
  }
}

}  // namespace
}  // namespace attune::fuzz

// The first byte is the size of a window less one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = attune::fuzz::text_of(data + 1, size - 1);
  attune::fuzz::read(bytes, 1 + data[0] % 16);
  attune::fuzz::read_prompt(bytes);
  return 0;
}
