#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attune {

// How a weight is drawn, by its own size and not by the largest of its map, so that maps compare:
//   ascii   . : + # @    from 1/64, 1/16, 1/8, 1/4, 1/2
//   blocks  · ░ ▒ ▓ █    the same
//   color   backgrounds of a terminal of 256 colours, from 1/64 in steps of 2/3 of a factor of 2
enum class Shades : std::uint8_t { ascii, blocks, color };

// A map of attention for a terminal.
struct HeatPanel {
  std::string title;               // ASCII
  std::span<const double> values;  // [rows, columns]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// Small pictures side by side, `width` characters in all, each with its title: a cell is the
// largest weight of a block of pairs where a map has more of them than there is room.
[[nodiscard]] std::string heat_panels(std::span<const HeatPanel> panels, std::int64_t width,
                                      Shades shades);

// One map with a character of each token: columns are keys, lines are queries. Beyond `width` a
// cell is the largest weight of a block of pairs, and its label the first of its tokens.
// labels: one token text a row; maps are square.
[[nodiscard]] std::string heat_map(const HeatPanel& panel, std::span<const std::string> labels,
                                   std::int64_t width, Shades shades);

// What the shades mean, in one line.
[[nodiscard]] std::string shade_legend(Shades shades);

}  // namespace attune
