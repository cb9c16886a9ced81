#include "attune/observe/text_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {
namespace {

std::size_t width_of(const std::string& cell) { return decode_utf8(cell, nullptr).size(); }

}  // namespace

TextTable::TextTable(std::vector<std::string> columns) { rows_.push_back(std::move(columns)); }

void TextTable::add(std::vector<std::string> cells) {
  if (cells.size() != rows_.front().size()) {
    throw InternalError(fmt::format("text table: a row of {} cells for {} columns", cells.size(),
                                    rows_.front().size()));
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - width_of(row[c]), ' ');
      line += c == 0 ? row[c] + blanks : "  " + blanks + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace attune
