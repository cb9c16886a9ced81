#include "attune/autodiff/parameter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "autodiff/sample_ops.h"

namespace attune::parameter_test {

using sample::multiply;
using sample::sum;

template <class Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Parameter, KeepsItsShapeAndDType) {
  Parameter weight("head.weight", 3, Array::from({2, 3}, {1, 2, 3, 4, 5, 6}), {});
  EXPECT_EQ(weight.name(), "head.weight");
  EXPECT_EQ(weight.index(), 3);
  EXPECT_EQ(message_of<ShapeError>([&] {
              weight.set_value(Array::zeros({3, 2}, DType::float32));
            }),
            "head.weight is float32 [2, 3], not float32 [3, 2]");
  EXPECT_THROW(weight.set_value(Array::zeros({2, 3}, DType::float64)), ShapeError);
  EXPECT_EQ(weight.value().at({1, 2}), 6);
  weight.set_value(Array::zeros({2, 3}, DType::float32));
  EXPECT_EQ(weight.value().at({1, 2}), 0);
}

TEST(Parameter, IsUpdatedInPlaceWhereNobodyHoldsItsValue) {
  Parameter weight("w", 0, Array::from({2}, {1, 2}), {});
  const float* storage = weight.value().data<float>().data();
  weight.writable_value().mutable_data<float>()[0] = 7;
  EXPECT_EQ(weight.value().data<float>().data(), storage);
  EXPECT_EQ(weight.value().to_vector(), (std::vector<double>{7, 2}));
}

TEST(Parameter, ASnapshotStaysAsItIs) {
  Parameter weight("w", 0, Array::from({2}, {1, 2}), {});
  const Array snapshot = weight.value();
  weight.writable_value().mutable_data<float>()[0] = 7;
  EXPECT_EQ(snapshot.to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(weight.value().to_vector(), (std::vector<double>{7, 2}));
}

// Forward, then an update of W, then backward of y = W x: dx is the W of the forward pass.
TEST(Parameter, AnUpdateBetweenForwardAndBackwardDoesNotChangeTheGradient) {  // B30
  Parameter weight("w", 0, Array::from({2}, {3, 5}, DType::float64), {});
  Tape tape;
  const Var x = tape.leaf(Array::from({2}, {1, 1}, DType::float64));
  const Var loss = sum(multiply(tape.parameter(weight), x));
  weight.writable_value().mutable_data<double>()[0] = 100;
  EXPECT_EQ(tape.backward(loss)[x].to_vector(), (std::vector<double>{3, 5}));
  EXPECT_EQ(weight.value().at({0}), 100);
}

TEST(ParameterStore, KeepsCreationOrderAndAddresses) {
  ParameterStore store;
  Parameter& first = store.create("first", Array::zeros({2, 3}, DType::float32));
  for (int i = 0; i < 1000; ++i) {
    store.create("p" + std::to_string(i), Array::zeros({1}, DType::float32));
  }
  EXPECT_EQ(&store[0], &first);
  EXPECT_EQ(store.count(), 1001);
  EXPECT_EQ(store.elements(), 1006);
  std::int64_t index = 0;
  for (const Parameter& parameter : store) EXPECT_EQ(parameter.index(), index++);
  EXPECT_EQ(store.find("p999"), &store[1000]);
  EXPECT_EQ(store.find("p1000"), nullptr);
}

TEST(ParameterStore, ANameThatIsTakenIsAnError) {
  ParameterStore store;
  store.create("w", Array::zeros({2}, DType::float32));
  EXPECT_EQ(message_of<ConfigError>([&] { store.create("w", Array::zeros({2}, DType::float32)); }),
            "there are two parameters named 'w'");
  EXPECT_EQ(store.count(), 1);
}

TEST(ParameterStore, HasNoRoomForMoreThanItsLimit) {
  ParameterStore store(5);
  store.create("a", Array::zeros({2, 2}, DType::float32));
  store.require_room("b", 1);
  for (const std::int64_t elements : {std::int64_t{2}, std::int64_t{1} << 62}) {
    EXPECT_THROW(store.require_room("b", elements), ConfigError);
  }
  EXPECT_THROW(store.create("b", Array::zeros({2}, DType::float32)), ConfigError);
  EXPECT_EQ(store.elements(), 4);
  store.create("b", Array::zeros({1}, DType::float32));
  EXPECT_THROW(store.create("c", Array::zeros({1}, DType::float32)), ConfigError);
  store.create("none", Array::zeros({0}, DType::float32));
  EXPECT_EQ(store.elements(), 5);
}

TEST(ParameterStore, OptionsSayWhatTrainingMayDo) {
  ParameterStore store;
  const Array value = Array::zeros({2}, DType::float32);
  EXPECT_TRUE(store.create("weight", value).options().decays);
  EXPECT_FALSE(store.create("weight2", value).options().optional);
  EXPECT_FALSE(store.create("bias", value, {.decays = false}).options().decays);
  EXPECT_TRUE(store.create("expert", value, {.optional = true}).options().optional);
}

// FNV-1a (Fowler, Noll, Vo) over a list of bytes.
std::string fnv1a(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::uint8_t byte : bytes) {
    hash ^= byte;
    hash *= 1099511628211u;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}
void append(std::vector<std::uint8_t>& bytes, std::uint64_t number, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}

TEST(ParameterStore, TheHashIsFnvOverNamesShapesAndLittleEndianValues) {
  ParameterStore store;
  store.create("ab", Array::from({2, 1}, {1.5, -2}));
  store.create("c", Array::from({}, {0.1}, DType::float64));
  std::vector<std::uint8_t> bytes = {'a', 'b'};
  append(bytes, 2, 8);
  append(bytes, 1, 8);
  append(bytes, std::bit_cast<std::uint32_t>(1.5f), 4);
  append(bytes, std::bit_cast<std::uint32_t>(-2.0f), 4);
  bytes.push_back('c');
  append(bytes, std::bit_cast<std::uint64_t>(0.1), 8);
  EXPECT_EQ(store.hash(), fnv1a(bytes));
  EXPECT_EQ(ParameterStore().hash(), "cbf29ce484222325");
}

TEST(ParameterStore, TheHashSeesEveryBit) {
  ParameterStore store;
  Parameter& weight = store.create("w", Array::from({2}, {0, 1}));
  const std::string before = store.hash();
  weight.set_value(Array::from({2}, {-0.0, 1}));
  EXPECT_NE(store.hash(), before);
  weight.set_value(Array::from({2}, {0, 1}));
  EXPECT_EQ(store.hash(), before);
}

}  // namespace attune::parameter_test
