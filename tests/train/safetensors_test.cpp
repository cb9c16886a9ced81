#include "attune/train/safetensors.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attune/array/buffer_pool.h"
#include "attune/core/error.h"

namespace attune::safetensors_test {

// A file put together by hand, after the format's description.
std::string file_of(std::string_view header, std::size_t data_bytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes.append(header).append(data_bytes, '\0');
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

// Decoding must fail with one line that names the source and holds `reason`, and must not allocate
// an array on the way.
void expect_refused(const std::string& bytes, std::string_view reason) {
  const std::int64_t live = buffer_pool::statistics().live_bytes;
  buffer_pool::reset_peak();
  const std::int64_t allocations = buffer_pool::statistics().system_allocations;
  try {
    static_cast<void>(decode_safetensors(bytes, "some.safetensors"));
    ADD_FAILURE() << "accepted, expected: " << reason;
  } catch (const IoError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("some.safetensors: ")) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600u) << message;
  }
  EXPECT_EQ(buffer_pool::statistics().live_bytes, live);
  EXPECT_EQ(buffer_pool::statistics().system_allocations, allocations);
}

template <class T>
bool bitwise_equal(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.data<T>().data(), b.data<T>().data(), a.data<T>().size_bytes()) == 0;
}

// The bytes are written out here from the description of the format; 1.5f is 0x3fc00000, -2.0f is
// 0xc0000000.
TEST(Safetensors, WritesTheDocumentedBytes) {
  TensorFile file;
  file.metadata = {{"step", "7"}};
  file.tensors.emplace_back("a.b", Array::from({1, 2}, {1.5, -2}));
  std::string header =
      R"({"__metadata__":{"step":"7"},"a.b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string expected = file_of(header, 0);
  expected += std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);
  EXPECT_EQ(encode_safetensors(file), expected);
}

TEST(Safetensors, ReadsBackBitwise) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  TensorFile file;
  file.metadata = {{"text", "line\nquote\" backslash\\ \x01 \xc3\xa9"}, {"", ""}};
  file.tensors.emplace_back("z", Array::from({2, 3}, {1, -0.0, std::nan(""), kInfinity, 1e-45, 7}));
  file.tensors.emplace_back("a", Array::from({5}, {0.1, 1e-310, 3, 4, -1e300}, DType::float64));
  const TensorFile read = decode_safetensors(encode_safetensors(file), "x");
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_EQ(read.tensors[0].first, "z");
  EXPECT_EQ(read.tensors[1].first, "a");
  EXPECT_TRUE(bitwise_equal<float>(read.tensors[0].second, file.tensors[0].second));
  EXPECT_TRUE(bitwise_equal<double>(read.tensors[1].second, file.tensors[1].second));
}

TEST(Safetensors, ReadsScalarsAndEmptyArraysInTheirOrder) {  // B39
  TensorFile file;
  file.tensors.emplace_back("first", Array::zeros({0, 3}, DType::float32));
  file.tensors.emplace_back("scalar", Array::scalar(2.5, DType::float64));
  file.tensors.emplace_back("between", Array::zeros({0}, DType::float64));
  file.tensors.emplace_back("last", Array::from({1}, {3}));
  const TensorFile read = decode_safetensors(encode_safetensors(file), "x");
  ASSERT_EQ(read.tensors.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read.tensors[i].first, file.tensors[i].first);
    EXPECT_EQ(read.tensors[i].second.shape(), file.tensors[i].second.shape());
    EXPECT_FALSE(read.tensors[i].second.is_null());
  }
  EXPECT_EQ(read.tensors[1].second.item(), 2.5);
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(decode_safetensors(encode_safetensors({}), "x").tensors.empty());
  EXPECT_TRUE(decode_safetensors(file_of("{}", 0), "x").tensors.empty());
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string header = R"({"late":{"data_offsets":[4,8],"shape":[1],"dtype":"F32"},)"
                             R"( "early":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  const TensorFile read = decode_safetensors(file_of(header, 8), "x");
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_EQ(read.tensors[0].first, "early");
  EXPECT_EQ(read.tensors[1].first, "late");
}

TEST(Safetensors, RefusesToWriteWhatCannotBeReadBack) {
  const Array array = Array::zeros({1}, DType::float32);
  EXPECT_THROW(static_cast<void>(encode_safetensors({{{"a", array}, {"a", array}}, {}})),
               ValueError);
  EXPECT_THROW(static_cast<void>(encode_safetensors({{{"__metadata__", array}}, {}})), ValueError);
  EXPECT_THROW(static_cast<void>(encode_safetensors({{{"a", Array()}}, {}})), ValueError);
  EXPECT_THROW(static_cast<void>(encode_safetensors({{{"\xff", array}}, {}})), ValueError);
  EXPECT_THROW(static_cast<void>(encode_safetensors({{}, {{"key", "\xc3"}}})), ValueError);
}

// Cases B39 (a) to (k).
TEST(Safetensors, RefusesShortFiles) {
  expect_refused("", "0 bytes are no safetensors file");
  expect_refused(std::string(7, '\0'), "7 bytes are no safetensors file");
  expect_refused(std::string(8, '\0'), "header is not a JSON object");
}

TEST(Safetensors, RefusesHostileHeaderLengths) {
  expect_refused(std::string(8, '\xff') + "{}", "header of 18446744073709551615 bytes");
  const std::string beyond_limit{'\x01', '\xe1', '\xf5', '\x05', 0, 0, 0, 0, '{', '}'};  // 1e8 + 1
  expect_refused(beyond_limit, "header of 100000001 bytes, expected at most 100000000");
  const std::string beyond_file{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
  expect_refused(beyond_file, "header of 3 bytes in a file of 10");
}

TEST(Safetensors, RefusesHeadersThatAreNoObject) {
  expect_refused(file_of("[]", 0), "header is not a JSON object");
  expect_refused(file_of("12", 0), "header is not a JSON object");
  expect_refused(file_of("\xef\xbb\xbf{}", 0), "header is not a JSON object");
  expect_refused(file_of(std::string_view("{}\0{", 4), 0), "header is not a JSON object");
  expect_refused(file_of("{", 0), "header is not JSON at byte");
  expect_refused(file_of("{}{}", 0), "header is not JSON at byte 3");
  expect_refused(file_of("{\"\xff\":1}", 0), "header is not JSON at byte");
  expect_refused(file_of("{/**/}", 0), "header is not JSON at byte");
}

TEST(Safetensors, RefusesFieldsOfAnotherKind) {
  expect_refused(file_of(R"({"w":5})", 0), "tensor \"w\": 5 found, expected an object");
  expect_refused(file_of("{\"w\x7f\":5}", 0), "tensor \"w\\x7f\": 5 found");
  expect_refused(file_of(R"({"w":null})", 0), "null found, expected an object");
  expect_refused(file_of(R"({"w":[]})", 0), "an array found, expected an object");
  expect_refused(file_of(R"({"w":{}})", 0), "tensor \"w\": dtype is missing");
  expect_refused(file_of(R"({"w":{"dtype":"F32"}})", 0), "shape is missing");
  expect_refused(file_of(R"({"w":{"dtype":"F32","shape":[]}})", 0), "data_offsets is missing");
  expect_refused(file_of(R"({"w":{"dtype":4}})", 0), "\"dtype\": 4 found, expected a string");
  expect_refused(file_of(R"({"w":{"shape":"[]"}})", 0), "expected an array");
  expect_refused(file_of(R"({"w":{"shape":{}}})", 0), "an object found, expected an array");
  expect_refused(file_of(R"({"w":{"shape":["2"]}})", 0), "expected a whole number");
  expect_refused(file_of(R"({"w":{"stride":[]}})", 0), "the key \"stride\" is unknown");
  expect_refused(file_of(R"({"__metadata__":{"a":1}})", 0), "header: \"a\": 1 found");
  expect_refused(file_of(R"({"__metadata__":{"a":{}}})", 0), "an object found, expected a string");
  expect_refused(file_of(R"({"__metadata__":"a"})", 0), "expected an object");
}

TEST(Safetensors, RefusesOffsetsThatDoNotCoverTheData) {
  expect_refused(file_of(entry("F32", "[1]", "[8,4]"), 8), "[8, 4] end before they begin");
  expect_refused(file_of(entry("F32", "[1]", "[-4,0]"), 8), "\"data_offsets\": -4 found");
  expect_refused(file_of(entry("F32", "[1]", "[0,4.0]"), 4), "\"4.0\" found");
  expect_refused(file_of(entry("F32", "[1]", "[0,1e400]"), 4), "not JSON");
  expect_refused(file_of(entry("F32", "[1]", "[0,9007199254740993]"), 4), "from 0 to 2^53");
  expect_refused(file_of(entry("F32", "[1]", "[0,18446744073709551620]"), 4), "from 0 to 2^53");
  expect_refused(file_of(entry("F32", "[1]", "[4]"), 4), "less than two numbers");
  expect_refused(file_of(entry("F32", "[1]", "[0,4,8]"), 4), "more than two numbers");
  expect_refused(file_of(entry("F32", "[2]", "[0,8]"), 4), "[0, 8] lie beyond the 4 bytes");
  expect_refused(file_of(entry("F32", "[1]", "[4,8]"), 8), "leave a hole after byte 0");
  const std::string two = R"({{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},)"
                          R"("b":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}}})";
  expect_refused(file_of(fmt::format(fmt::runtime(two), 4, 8), 8),
                 "tensor \"b\": data_offsets [4, 8] overlap");
  expect_refused(file_of(fmt::format(fmt::runtime(two), 9, 13), 13), "leave a hole after byte 8");
}

TEST(Safetensors, RefusesShapesThatDoNotFitTheirData) {
  expect_refused(file_of(entry("F32", "[32,8]", "[0,65536]"), 65536),
                 "hold 65536 bytes, but F32 [32, 8] has 256 elements of 4");
  expect_refused(file_of(entry("F32", "[]", "[0,0]"), 0), "has 1 elements");
  expect_refused(file_of(entry("F32", "[1]", "[0,6]"), 6), "hold 6 bytes");
  expect_refused(file_of(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0),
                 "tensor \"w\": shape: [4294967296, 4294967296] has more than 2^62 elements");
  expect_refused(file_of(entry("F64", "[4611686018427387904]", "[0,0]"), 0), "from 0 to 2^53");
  // 2^61 elements of 8 bytes: the product wraps to 0 in 64 bits.
  expect_refused(file_of(entry("F64", "[1073741824,2147483648]", "[0,0]"), 0), "hold 0 bytes");
  expect_refused(file_of(entry("F32", "[0,9007199254740992,9007199254740992]", "[0,0]"), 0),
                 "more than 2^62 elements");
  expect_refused(file_of(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), "more than 8 extents");
  expect_refused(file_of(entry("F32", "[-1]", "[0,4]"), 4), "\"shape\": -1 found");
}

TEST(Safetensors, RefusesOtherDtypes) {
  for (const char* dtype : {"F16", "BF16", "I64", "f32", ""}) {
    expect_refused(file_of(entry(dtype, "[1]", "[0,4]"), 4),
                   fmt::format("tensor \"w\": dtype is \"{}\", expected F32 or F64", dtype));
  }
}

TEST(Safetensors, RefusesTheSameKeyTwice) {
  const std::string w = R"("w":{"dtype":"F32","shape":[],"data_offsets":[0,4]})";
  expect_refused(file_of("{" + w + "," + w + "}", 4), "the key \"w\" stands twice");
  expect_refused(file_of(R"({"w":{"dtype":"F32","dtype":"F32"}})", 0), "\"dtype\" stands twice");
  expect_refused(file_of(R"({"w":{"shape":[],"shape":[]}})", 0), "\"shape\" stands twice");
  expect_refused(file_of(R"({"w":{"data_offsets":[0,0],"data_offsets":[0,0]}})", 0),
                 "\"data_offsets\" stands twice");
  expect_refused(file_of(R"({"__metadata__":{"a":"1","a":"1"}})", 0), "\"a\" stands twice");
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0),
                 "header: the key \"__metadata__\" stands twice");
}

TEST(Safetensors, RefusesTrailingBytes) {
  expect_refused(file_of(entry("F32", "[1]", "[0,4]"), 5), "1 bytes follow the last tensor");
  expect_refused(file_of("{}", 3), "3 bytes follow the last tensor");
}

TEST(Safetensors, NestingDoesNotReachTheStack) {
  constexpr std::size_t kDepth = 4'000'000;
  expect_refused(file_of(R"({"w":)" + std::string(kDepth, '['), 0), "expected an object");
  std::string objects = R"({"w":{"shape":)";
  for (std::size_t i = 0; i < kDepth / 4; ++i) objects += R"({"":)";
  expect_refused(file_of(objects, 0), "expected an array");
  expect_refused(file_of("{" + std::string(kDepth, '{'), 0), "not JSON");
}

TEST(Safetensors, LongAndHostileNamesStayOneShortLine) {
  const std::string name = "a\\n\\u0000\\u001b[31m" + std::string(1'000'000, 'x');
  expect_refused(file_of("{\"" + name + "\":1}", 0), R"(tensor "a\n\u0000\u001b[31m)");
}

std::string small_valid_file() {
  TensorFile file;
  file.metadata = {{"step", "3"}};
  file.tensors.emplace_back("b", Array::from({3}, {1, 2, 3}));
  file.tensors.emplace_back("a", Array::from({1, 2}, {4, 5}, DType::float64));
  return encode_safetensors(file);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string bytes = small_valid_file();
  for (std::size_t size = 0; size < bytes.size(); ++size) expect_refused(bytes.substr(0, size), "");
}

// A damaged byte is refused or, in a name, a string or the data, read as it is.
TEST(Safetensors, DamagedBytesNeverDoMoreThanRefuse) {
  const std::string bytes = small_valid_file();
  const std::size_t data_begin = bytes.size() - 28;
  for (std::size_t place = 0; place < data_begin; ++place) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(value);
      try {
        const TensorFile file = decode_safetensors(damaged, "x");
        std::int64_t total = 0;
        for (const auto& [name, array] : file.tensors) total += array.bytes();
        EXPECT_EQ(total, 28) << place << " " << value;
      } catch (const IoError&) {
      }
    }
  }
}

}  // namespace attune::safetensors_test
