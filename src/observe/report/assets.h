#pragma once

#include <string_view>

// What every page is made of; embed.cmake turns the files of this directory and the charting
// library into functions.
namespace attune::report_assets {

[[nodiscard]] std::string_view page();  // the template, with {{name}} where report.cpp puts in
[[nodiscard]] std::string_view style();
[[nodiscard]] std::string_view script();
[[nodiscard]] std::string_view specs();    // JSON: a Vega specification for each kind of chart
[[nodiscard]] std::string_view library();  // Vega; empty where the build found none

}  // namespace attune::report_assets
