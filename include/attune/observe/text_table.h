#pragma once

#include <string>
#include <vector>

namespace attune {

// A table of words and numbers for a terminal: a header line and rows, two blanks between columns,
// the first column flush left, all others flush right, no blanks at the ends of lines.
class TextTable final {
 public:
  explicit TextTable(std::vector<std::string> columns);
  // Adds a row. Throws InternalError unless there is one cell a column.
  void add(std::vector<std::string> cells);
  // All lines, each with its line break. Widths count UTF-8 characters.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
};

}  // namespace attune
