#include "attune/observe/plot.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/observe/text_table.h"

namespace attune::plot_test {

namespace fs = std::filesystem;

// A directory of the test's own, gone with it.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("attune-plot-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

bool has_gnuplot() { return std::system("gnuplot --version >/dev/null 2>&1") == 0; }

const Plot kPlot{"a 'title' with $ and `echo no`",
                 "x",
                 "y",
                 false,
                 true,
                 {{"first", {1, 2, 3}, {0.5, NAN, 2}, {0.1, 0.1, 5}}, {"se_cond", {1, 2}, {3, 4}}}};

TEST(TextTable, AlignsTheFirstColumnLeftAndOthersRight) {
  TextTable table({"name", "value", "note"});
  table.add({"β", "1.5", ""});
  table.add({"longer", "12", "x"});
  EXPECT_EQ(table.text(),
            "name    value  note\n"
            "β         1.5\n"
            "longer     12     x\n");
  EXPECT_THROW(table.add({"one"}), InternalError);
}

TEST(Plot, DrawsEachTextAndSeriesIntoAnSvg) {
  if (!has_gnuplot()) GTEST_SKIP() << "no gnuplot";
  const Folder folder;
  draw(std::vector<Plot>{kPlot, kPlot}, folder.path / "a.svg");
  const std::string svg = read_file(folder.path / "a.svg");
  EXPECT_NE(svg.find("a 'title' with $ and `echo no`"), std::string::npos);
  EXPECT_NE(svg.find("se_cond"), std::string::npos);
  EXPECT_NE(svg.find("width=\"880\""), std::string::npos) << "two panels side by side";
}

TEST(Plot, DrawsAPngAndAHeatMap) {
  if (!has_gnuplot()) GTEST_SKIP() << "no gnuplot";
  const Folder folder;
  const HeatMap map{"m", "", "", {"a", "b", "c"}, {}, 2, 3, {0, 0.5, 1, 1, NAN, 0}, 0, 1};
  draw(std::vector<HeatMap>{map, map, map}, 2, folder.path / "a.png");
  EXPECT_EQ(read_file(folder.path / "a.png").substr(1, 3), "PNG");
}

TEST(Plot, RefusesWhatDoesNotFit) {
  EXPECT_THROW(draw(std::vector<Plot>{}, "a.svg"), ValueError);
  EXPECT_THROW(draw(std::vector<Plot>{kPlot}, "a.pdf"), ValueError);
  EXPECT_THROW(draw(std::vector<Plot>{{"", "", "", false, false, {{"s", {1, 2}, {1}}}}}, "a.svg"),
               ValueError);
  EXPECT_THROW(draw(std::vector<HeatMap>{{"", "", "", {}, {}, 2, 2, {1, 2, 3}}}, 1, "a.svg"),
               ValueError);
}

TEST(Plot, SaysWhenThereIsNoGnuplotAndLeavesTheFileAlone) {
  const Folder folder;
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.path.c_str(), 1);
  std::string message;
  try {
    draw(std::vector<Plot>{kPlot}, folder.path / "a.svg");
  } catch (const IoError& error) {
    message = error.what();
  }
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(message.find("a.svg' is not drawn: there is no gnuplot"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder.path / "a.svg"));
}

}  // namespace attune::plot_test
