#include <cstddef>
#include <cstdlib>
#include <new>

#include "attune/array/buffer_pool.h"
#include "model/model_test.h"

namespace {
thread_local std::size_t heap_bytes = 0;  // asked of operator new by this thread
}

// Counts what containers ask for; arrays come from the buffer pool, which asks otherwise.
// Not inlined, or g++ takes new and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  heap_bytes += bytes;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// What std::stable_sort asks for, and gives back to the delete below.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  heap_bytes += bytes;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// What one more token asks for does not depend on how many were read before it.
namespace attune::generation_cost_test {

struct TokenCost {
  std::size_t heap_bytes = 0;
  std::int64_t system_allocations = 0;
  std::int64_t peak_bytes = 0;  // of arrays, above what lived before; counted to within 64 KiB
};

constexpr std::int64_t kTokens = 600;

// Of each token of a text that is read one by one.
std::vector<TokenCost> token_costs(const std::string& positions) {
  TransformerConfig config = small_config();
  config.positions = positions;
  config.n_embd = 128;
  config.n_head = 4;
  config.block_size = kTokens;
  const Transformer model(config, 1);
  const std::vector<std::int32_t> tokens = random_tokens(kTokens);
  KvCache cache = model.make_cache(1, kTokens);
  Pass pass;
  pass.cache = &cache;
  std::vector<TokenCost> costs;
  costs.reserve(kTokens);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    buffer_pool::reset_peak();
    const buffer_pool::Statistics before = buffer_pool::statistics();
    const std::size_t heap_before = heap_bytes;
    static_cast<void>(
        model.logits({std::span(tokens).subspan(static_cast<std::size_t>(t), 1), 1, 1}, pass));
    const std::size_t heap_after = heap_bytes;
    const buffer_pool::Statistics after = buffer_pool::statistics();
    costs.push_back({heap_after - heap_before, after.system_allocations - before.system_allocations,
                     after.peak_bytes - before.live_bytes});
  }
  return costs;
}

// Keys and values of 500 tokens are 1 MB here, what fire makes a bias of 64 kB. A scheme that
// rotates all keys anew or looks at content reads them as arrays.
TEST(TokenCost, NoEncodingLetsKeysOrValuesBeCopiedUnlessItNeedsThemAll) {
  for (const EncodingInfo& encoding : list_encodings()) {
    SCOPED_TRACE(encoding.name);
    TransformerConfig config = small_config();
    config.positions = encoding.name;
    const Transformer model(config, 1);
    if (model.encoding().depends_on_content() ||
        model.encoding().cache_policy() == CachePolicy::raw_keys)
      continue;
    const std::vector<TokenCost> costs = token_costs(encoding.name);
    EXPECT_LE(costs[512].peak_bytes, costs[16].peak_bytes + (1 << 17));
  }
}

// Schemes with a bias must make a row of it; the others ask for the same at every token.
TEST(TokenCost, IsTheSameAfter16AndAfter512Tokens) {
  for (const char* encoding : {"none", "learned", "sinusoidal", "rope"}) {
    SCOPED_TRACE(encoding);
    const std::vector<TokenCost> costs = token_costs(encoding);
    EXPECT_EQ(costs[512].heap_bytes, costs[16].heap_bytes);
    EXPECT_GT(costs[16].heap_bytes, 0u) << "the counter is not in place";
    for (std::size_t t = 2; t < costs.size(); ++t)
      ASSERT_EQ(costs[t].system_allocations, 0) << "token " << t;
  }
}

}  // namespace attune::generation_cost_test
