#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attune/core/mask_pattern.h"

namespace attune {

// Which keys a query may attend to. One convention throughout: *keep* semantics (true = may
// attend), parts combined by AND. A mask is not an additive number: what it drops is selected away,
// so that nothing stored there matters.
//
// All parts are aligned bottom-right: with `query` rows against `key` columns, row i stands at key
// position p = i + key - query. A row may keep no key at all; it then attends to nothing and its
// output is zero.
class Mask final {
 public:
  // Keeps everything.
  Mask() = default;
  [[nodiscard]] static Mask none() { return {}; }
  [[nodiscard]] static Mask causal();
  // Keys at most width - 1 behind the query, and ahead unless combined with causal(). Throws
  // ValueError for width < 1.
  [[nodiscard]] static Mask window(std::int64_t width);
  // Causal but for the first `length` keys, which everybody sees: they see each other (prefix-LM,
  // Raffel et al. 2020). Throws ValueError for length < 0.
  [[nodiscard]] static Mask prefix(std::int64_t length);
  // Throws ValueError for a pattern that keeps nothing or has a number out of its range.
  [[nodiscard]] static Mask sparse(const MaskPattern& pattern);
  // Tokens see their own document alone. document: [batch, key], any number that says which.
  [[nodiscard]] static Mask documents(std::int64_t batch, std::vector<std::int32_t> document);
  // keep: [batch, key], one flag for each key of each example. Here and below any flag but 0 is
  // true, and flags that do not fill the extents are a ShapeError.
  [[nodiscard]] static Mask key_padding(std::int64_t batch, std::vector<std::uint8_t> keep);
  // Example b has lengths[b] real keys, the rest is padding on the right. Throws ValueError for a
  // length beyond `key`.
  [[nodiscard]] static Mask key_lengths(std::span<const std::int64_t> lengths, std::int64_t key);
  // keep: [batch or 1, heads or 1, query, key]
  [[nodiscard]] static Mask custom(std::int64_t batch, std::int64_t heads, std::int64_t query,
                                   std::int64_t key, std::vector<std::uint8_t> keep);

  // The two PyTorch conventions, at the border: nn.MultiheadAttention's boolean masks (true =
  // ignore), and the float masks that are added to the scores (0 = keep, -inf = ignore). Both are
  // [query, key]. A float mask that holds anything else, such as 1, is refused with ValueError: it
  // was most likely a 0/1 mask.
  [[nodiscard]] static Mask from_ignore(std::int64_t query, std::int64_t key,
                                        std::span<const std::uint8_t> ignore);
  [[nodiscard]] static Mask from_additive(std::int64_t query, std::int64_t key,
                                          std::span<const float> additive);

  // Keys that both keep. Throws ShapeError where both have padding, or documents, of different
  // extents.
  [[nodiscard]] friend Mask operator&(Mask a, const Mask& b) { return a &= b; }
  Mask& operator&=(const Mask& other);

  // No query sees a key behind it.
  [[nodiscard]] bool is_causal() const { return causal_; }
  [[nodiscard]] std::int64_t window_width() const { return window_; }  // 0: none
  // True when rows are ranges of keys alone: causal, window and prefix, no other part.
  [[nodiscard]] bool is_band() const {
    return padding_.empty() && customs_.empty() && patterns_.empty() && documents_.empty();
  }
  // Causal, window and prefix alone.
  [[nodiscard]] Mask band_part() const;
  // Whether examples, or heads, may differ in what they keep.
  [[nodiscard]] bool is_per_example() const;
  [[nodiscard]] bool is_per_head() const;

  // Throws ShapeError where a padding, documents or custom part does not fit these extents.
  void check(std::int64_t batch, std::int64_t heads, std::int64_t query, std::int64_t key) const;

  // The keys [begin, end) that causal, window and prefix leave for row i, 0 <= begin and end <=
  // key; begin >= end where none.
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };
  [[nodiscard]] Range band(std::int64_t i, std::int64_t query, std::int64_t key) const;
  [[nodiscard]] bool keeps(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
                           std::int64_t query, std::int64_t key) const;
  // Flags of the keys from `first` on, as many as `keep` has room for: keep[j] = keeps(b, h, i,
  // first + j) as 0 or 1. Returns how many are kept. check() comes first, once.
  std::int64_t fill_row(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t query,
                        std::int64_t key, std::span<std::uint8_t> keep,
                        std::int64_t first = 0) const;

 private:
  struct Custom {
    std::int64_t batch, heads, query, key;
    std::vector<std::uint8_t> keep;
    // Where in `keep` the row of these coordinates begins.
    [[nodiscard]] std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t i) const;
  };
  // Clears the flags of the keys from `first` on that a part other than the band drops.
  void intersect_row(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t query,
                     std::int64_t key, std::int64_t first, std::span<std::uint8_t> keep) const;

  bool causal_ = false;
  std::int64_t window_ = 0;
  std::int64_t prefix_ = -1;  // -1: none
  std::vector<MaskPattern> patterns_;
  std::int64_t documents_batch_ = 0;
  std::vector<std::int32_t> documents_;  // [documents_batch_, key]
  std::int64_t padding_batch_ = 0;
  std::vector<std::uint8_t> padding_;  // [padding_batch_, key]
  std::vector<Custom> customs_;
};

}  // namespace attune
