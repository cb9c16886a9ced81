#include "attune/observe/heat_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "attune/core/text.h"

namespace attune {
namespace {

constexpr std::array<double, 5> kShadeSteps = {1.0 / 64, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2};
constexpr std::array<std::string_view, 6> kAscii = {" ", ".", ":", "+", "#", "@"};
constexpr std::array<std::string_view, 6> kBlocks = {" ", "·", "░", "▒", "▓", "█"};
// Dark blue to yellow, of the 216 colours every such terminal has.
constexpr std::array<int, 9> kShadeColors = {17, 18, 24, 30, 36, 71, 113, 185, 226};
constexpr std::string_view kPlain = "\033[0m";

std::string shade(double weight, Shades shades, std::int64_t width) {
  if (shades == Shades::color) {
    if (!(weight >= kShadeSteps.front())) return std::string(static_cast<std::size_t>(width), ' ');
    const double place = std::clamp(1.5 * std::log2(weight / kShadeSteps.front()), 0.0, 8.0);
    return fmt::format("\033[48;5;{}m{:{}}{}", kShadeColors[static_cast<std::size_t>(place)], "",
                       width, kPlain);
  }
  const auto level =
      static_cast<std::size_t>(std::ranges::upper_bound(kShadeSteps, weight) - kShadeSteps.begin());
  std::string text;
  for (std::int64_t i = 0; i < width; ++i)
    text += shades == Shades::ascii ? kAscii[level] : kBlocks[level];
  return text;
}

// How a map is fitted into a width: a cell is `down` x `across` pairs, `cell` characters wide.
struct Fit {
  std::int64_t across = 1;
  std::int64_t down = 1;
  std::int64_t cell = 1;
};

std::int64_t parts(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

// A character is twice as high as wide.
Fit thumbnail(std::int64_t columns, std::int64_t width) {
  if (2 * columns <= width) return {1, 1, 2};
  const std::int64_t across = parts(columns, width);
  return {across, 2 * across, 1};
}

double largest(const HeatPanel& panel, std::int64_t row, std::int64_t column, const Fit& fit) {
  double result = 0;
  for (std::int64_t i = row * fit.down; i < std::min((row + 1) * fit.down, panel.rows); ++i)
    for (std::int64_t j = column * fit.across;
         j < std::min((column + 1) * fit.across, panel.columns); ++j)
      result = std::max(result, panel.values[static_cast<std::size_t>(i * panel.columns + j)]);
  return result;
}

std::string line_of(const HeatPanel& panel, std::int64_t row, const Fit& fit, Shades shades) {
  std::string line;
  for (std::int64_t column = 0; column < parts(panel.columns, fit.across); ++column)
    line += shade(largest(panel, row, column, fit), shades, fit.cell);
  return line;
}

std::string blanks(std::int64_t count) {
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), ' ');
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

// One character that stands for a token.
std::string glyph(const std::string& token, Shades shades) {
  if (token == " ") return "_";
  if (token == "\n") return shades == Shades::ascii ? "\\" : "↵";
  const std::vector<char32_t> points = decode_utf8(token, nullptr);
  // What a terminal does not draw in one cell: control characters, wide scripts, marks that
  // combine.
  const bool is_narrow = !points.empty() && points.front() > 0x20 && points.front() < 0x300 &&
                         !(points.front() >= 0x7f && points.front() < 0xa1);
  if (!is_narrow || (shades == Shades::ascii && points.front() > 0x7e)) return "?";
  return encode_utf8(points.front());
}

}  // namespace

std::string heat_panels(std::span<const HeatPanel> panels, std::int64_t width, Shades shades) {
  constexpr std::int64_t kGap = 2;
  const auto count = static_cast<std::int64_t>(panels.size());
  const std::int64_t room = (width + kGap) / count - kGap;
  std::string text;
  for (const HeatPanel& panel : panels)
    text += fmt::format("{:<{}}{:{}}", panel.title.substr(0, static_cast<std::size_t>(room)), room,
                        "", kGap);
  end_line(text);
  std::int64_t lines = 0;
  for (const HeatPanel& panel : panels)
    lines = std::max(lines, parts(panel.rows, thumbnail(panel.columns, room).down));
  for (std::int64_t row = 0; row < lines; ++row) {
    std::string line;
    for (const HeatPanel& panel : panels) {
      const Fit fit = thumbnail(panel.columns, room);
      line += line_of(panel, row, fit, shades);
      line += blanks(room + kGap - parts(panel.columns, fit.across) * fit.cell);
    }
    end_line(line);
    text += line;
  }
  return text;
}

std::string heat_map(const HeatPanel& panel, std::span<const std::string> labels,
                     std::int64_t width, Shades shades) {
  constexpr std::int64_t kLabel = 2;
  const std::int64_t room = width - kLabel;
  Fit fit{1, 1, 2};
  if (2 * panel.columns > room) fit = {parts(panel.columns, room), parts(panel.columns, room), 1};
  const auto label = [&](std::int64_t i) {
    return glyph(labels[static_cast<std::size_t>(i)], shades);
  };
  std::string text = panel.title + "\n" + blanks(kLabel);
  for (std::int64_t column = 0; column < parts(panel.columns, fit.across); ++column)
    text += label(column * fit.across) + blanks(fit.cell - 1);
  end_line(text);
  for (std::int64_t row = 0; row < parts(panel.rows, fit.down); ++row) {
    std::string line = label(row * fit.down) + " " + line_of(panel, row, fit, shades);
    end_line(line);
    text += line;
  }
  if (fit.across > 1)
    text += fmt::format("a cell is the largest weight of {0} x {0} pairs\n", fit.across);
  return text;
}

std::string shade_legend(Shades shades) {
  if (shades == Shades::color) {
    std::string text = "weights: ";
    for (const double weight : {1.0 / 64, 1.0 / 32, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1.0})
      text += shade(weight, shades, 2) + fmt::format(" {:.2g}  ", weight);
    end_line(text);
    return text;
  }
  std::string text = "weights:";
  constexpr std::array<std::string_view, 5> kNames = {"1/64", "1/16", "1/8", "1/4", "1/2"};
  for (std::size_t i = 0; i < kNames.size(); ++i)
    text +=
        fmt::format("  {} from {}", (shades == Shades::ascii ? kAscii : kBlocks)[i + 1], kNames[i]);
  return text + "\n";
}

}  // namespace attune
