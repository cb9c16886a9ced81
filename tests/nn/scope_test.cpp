#include "attune/nn/scope.h"

#include "nn/layer_test.h"

namespace attune::scope_test {

TEST(Scope, JoinsNamesWithDots) {
  ParameterStore store;
  const Scope root(store, 0, DType::float32);
  EXPECT_EQ((root / "block" / 3 / "attention").path(), "block.3.attention");
  EXPECT_EQ(root.path(), "");
}

TEST(Scope, ParameterHasTheFullNameAndItsOptions) {
  ParameterStore store;
  const Scope root(store, 0, DType::float64);
  const Parameter& bias =
      (root / "a" / "b").parameter("bias", {3}, Initializer::constant(2), {.decays = false});
  EXPECT_EQ(bias.name(), "a.b.bias");
  EXPECT_FALSE(bias.options().decays);
  EXPECT_EQ(bias.dtype(), DType::float64);
  EXPECT_EQ(store.find("a.b.bias"), &bias);
  EXPECT_EQ(root.parameter("gain", {1}, Initializer::constant(1)).name(), "gain");
}

TEST(Scope, ValuesDependOnTheNameAndNotOnTheOrderOfCreation) {
  ParameterStore one, other;
  const Scope first(one, 42, DType::float64), second(other, 42, DType::float64);
  const Initializer init = Initializer::normal(1);
  static_cast<void>((first / "x").parameter("weight", {5}, init));
  static_cast<void>((first / "y").parameter("weight", {5}, init));
  static_cast<void>((second / "y").parameter("weight", {5}, init));
  static_cast<void>((second / "x").parameter("weight", {5}, init));
  for (const char* name : {"x.weight", "y.weight"}) {
    expect_near(one.find(name)->value(), other.find(name)->value(), 0);
  }
  EXPECT_NE(one.find("x.weight")->value().to_vector(), one.find("y.weight")->value().to_vector());
}

TEST(Scope, AnotherSeedGivesOtherValues) {
  ParameterStore one, other;
  const Array& a =
      Scope(one, 1, DType::float64).parameter("w", {4}, Initializer::normal(1)).value();
  const Array& b =
      Scope(other, 2, DType::float64).parameter("w", {4}, Initializer::normal(1)).value();
  EXPECT_NE(a.to_vector(), b.to_vector());
}

TEST(Scope, ANameCanBeTakenOnce) {
  ParameterStore store;
  const Scope root(store, 0, DType::float32);
  static_cast<void>(root.parameter("w", {1}, Initializer::constant(0)));
  EXPECT_THROW(static_cast<void>(root.parameter("w", {1}, Initializer::constant(0))), ConfigError);
}

}  // namespace attune::scope_test
