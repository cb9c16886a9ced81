#include "cli/entropy_table.h"

#include <fmt/format.h>

namespace attune::cli {

std::string entropy_table(const AttentionStatistics& statistics) {
  const bool shares =
      statistics.layers() > 0 && statistics.heads() > 0 && statistics.at(0, 0).shares;
  std::string table = fmt::format("attention entropy{} (0 one key, 1 uniform)\n         ",
                                  shares ? " of each weight's share of its row" : "");
  for (int head = 0; head < statistics.heads(); ++head) table += fmt::format("  head {:<2}", head);
  table += "\n";
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    table += fmt::format("layer {:<3}", layer);
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      table += one.rows_valid ? fmt::format("  {:7.3f}", one.entropy_norm())
                              : fmt::format("  {:>7}", "-");
    }
    table += "\n";
  }
  return table;
}

}  // namespace attune::cli
