#include "attune/observe/graph.h"

#include <gtest/gtest.h>

#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/unary.h"
#include "train/tiny_run.h"

namespace attune::graph_test {

// A block with a map inside it and a sum around it, then a head that reads a parameter again.
class GraphTest : public testing::Test {
 protected:
  GraphTest() : weight_(store_.create("block.0.map.weight", Array::zeros({3, 3}, DType::float32))) {
    const Var x = tape_.leaf(Array::zeros({2, 3}, DType::float32));
    Var y;
    {
      const PathGuard block(&tape_, "block.0");
      {
        const PathGuard map(&tape_, "block.0.map");
        y = exp(exp(linear(x, tape_.parameter(weight_))));
      }
      y = x + y;
    }
    const PathGuard head(&tape_, "head");
    (void)linear(y, tape_.parameter(weight_));
  }
  // What stands behind the settings.
  [[nodiscard]] static std::string body(const std::string& dot) {
    return dot.substr(dot.find("];\n", dot.find("  edge [")) + 3);
  }

  ParameterStore store_;
  Parameter& weight_;
  Tape tape_;
};

TEST_F(GraphTest, ShowsModulesAndTheValuesBetweenThem) {
  EXPECT_EQ(body(to_dot(tape_)),
            "  n1 [label=\"input\"];\n"
            "  subgraph \"cluster_block.0\" {\n"
            "    label=\"block.0\";\n"
            "    n2 [label=\"add\"];\n"
            "    n0 [label=\"map\\nlinear\\nexp \u00d72\\nweight [3, 3]\"];\n"
            "  }\n"
            "  n3 [label=\"head\\nlinear\"];\n"
            "  n0 -> n2 [label=\"[2, 3]\"];\n"
            "  n0 -> n3 [label=\"[3, 3]\"];\n"
            "  n1 -> n0 [label=\"[2, 3]\"];\n"
            "  n1 -> n2 [label=\"[2, 3]\"];\n"
            "  n2 -> n3 [label=\"[2, 3]\"];\n"
            "}\n");
}

TEST_F(GraphTest, ShowsEveryOpAndParameterWhereAskedFor) {
  const std::string dot = to_dot(tape_, {.every_op = true});
  for (const char* part : {"subgraph \"cluster_block.0\" {", "subgraph \"cluster_block.0.map\" {",
                           "label=\"map\";", "[label=\"exp\\n[2, 3]\"];",
                           "[label=\"weight\\n[3, 3]\", shape=ellipse", "label=\"head\";"})
    EXPECT_NE(dot.find(part), std::string::npos) << part << "\n" << dot;
  EXPECT_EQ(dot.find("\u00d7"), std::string::npos);  // nothing is counted together
}

TEST(Graph, QuotesWhatNamesHold) {
  Tape tape;
  const PathGuard guard(&tape, "odd \"name\"\\");
  (void)exp(tape.leaf(Array::zeros({1}, DType::float32)));
  EXPECT_NE(to_dot(tape).find("label=\"odd \\\"name\\\"\\\\\\nexp\""), std::string::npos)
      << to_dot(tape);
}

TEST(GraphFile, IsWrittenOnceAtTheFirstStep) {
  const Directory directory;
  const std::filesystem::path file = (*directory).path() / "graph.dot";
  TinyRun run(tiny());
  GraphFile graph(file, {});
  run.trainer.add_step_observer(&graph);
  std::string first;
  run.recorder.at_step = [&](const StepRecord& record) {
    if (record.step > 0) return;
    first = read_file(file);
    std::filesystem::remove(file);
  };
  (void)run();
  EXPECT_NE(first.find("cluster_block.0"), std::string::npos) << first;
  EXPECT_NE(first.find("query.weight [8, 8]"), std::string::npos) << first;
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace attune::graph_test
