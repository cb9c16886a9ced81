#include "attune/core/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "attune/core/error.h"
#include "core/index.h"

namespace attune {
namespace {

// Every flag as 0 or 1, so that parts combine by bitwise AND.
void normalize(std::vector<std::uint8_t>& keep) {
  for (std::uint8_t& flag : keep) flag = flag != 0;
}

void intersect(std::vector<std::uint8_t>& keep, const std::vector<std::uint8_t>& other) {
  for (std::size_t i = 0; i < keep.size(); ++i) keep[i] &= other[i];
}

// Numbers that are equal where both are: the pair, counted in order of appearance.
std::vector<std::int32_t> common_documents(const std::vector<std::int32_t>& a,
                                           const std::vector<std::int32_t>& b) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> numbers;
  std::vector<std::int32_t> common(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    common[i] =
        numbers.try_emplace({a[i], b[i]}, static_cast<std::int32_t>(numbers.size())).first->second;
  return common;
}

void require_square(std::int64_t query, std::int64_t key, std::size_t size) {
  if (query < 0 || key < 0 || index(query) * index(key) != size) {
    throw ShapeError(
        fmt::format("mask: {} values do not make a mask of [query {}, key {}]", size, query, key));
  }
}

}  // namespace

Mask Mask::causal() {
  Mask mask;
  mask.causal_ = true;
  return mask;
}

Mask Mask::window(std::int64_t width) {
  if (width < 1)
    throw ValueError(fmt::format("mask: window of {} keys, expected 1 or more", width));
  Mask mask;
  mask.window_ = width;
  return mask;
}

Mask Mask::prefix(std::int64_t length) {
  if (length < 0)
    throw ValueError(fmt::format("mask: a prefix of {} keys, expected 0 or more", length));
  Mask mask;
  mask.prefix_ = length;
  return mask;
}

Mask Mask::sparse(const MaskPattern& pattern) {
  if (pattern.window < 0 || pattern.dilation < 1 || pattern.globals < 0 || pattern.random < 0 ||
      pattern.block < 1 || pattern.window + pattern.globals + pattern.random < 1) {
    throw ValueError(fmt::format(
        "mask: a pattern of window {}, dilation {}, {} global keys, {} random blocks of {} is none",
        pattern.window, pattern.dilation, pattern.globals, pattern.random, pattern.block));
  }
  Mask mask;
  mask.patterns_.push_back(pattern);
  return mask;
}

Mask Mask::documents(std::int64_t batch, std::vector<std::int32_t> document) {
  if (batch < 1 || document.size() % index(batch) != 0) {
    throw ShapeError(fmt::format("mask: {} document numbers do not make [batch {}, key]",
                                 document.size(), batch));
  }
  Mask mask;
  mask.documents_batch_ = batch;
  mask.documents_ = std::move(document);
  return mask;
}

Mask Mask::band_part() const {
  Mask band;
  band.causal_ = causal_;
  band.window_ = window_;
  band.prefix_ = prefix_;
  return band;
}

bool Mask::is_per_example() const {
  return padding_batch_ > 1 || documents_batch_ > 1 ||
         std::ranges::any_of(customs_, [](const Custom& part) { return part.batch > 1; });
}

bool Mask::is_per_head() const {
  return std::ranges::any_of(customs_, [](const Custom& part) { return part.heads > 1; });
}

Mask Mask::key_padding(std::int64_t batch, std::vector<std::uint8_t> keep) {
  if (batch < 1 || keep.size() % index(batch) != 0) {
    throw ShapeError(
        fmt::format("mask: {} padding flags do not make [batch {}, key]", keep.size(), batch));
  }
  Mask mask;
  mask.padding_batch_ = batch;
  mask.padding_ = std::move(keep);
  normalize(mask.padding_);
  return mask;
}

Mask Mask::key_lengths(std::span<const std::int64_t> lengths, std::int64_t key) {
  if (key < 0) throw ShapeError(fmt::format("mask: {} keys, expected 0 or more", key));
  std::vector<std::uint8_t> keep(lengths.size() * index(key), 0);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 0 || lengths[b] > key) {
      throw ValueError(
          fmt::format("mask: example {} has length {}, expected 0 to {}", b, lengths[b], key));
    }
    std::fill_n(keep.begin() + static_cast<std::ptrdiff_t>(b) * key, lengths[b], std::uint8_t{1});
  }
  return key_padding(static_cast<std::int64_t>(lengths.size()), std::move(keep));
}

Mask Mask::custom(std::int64_t batch, std::int64_t heads, std::int64_t query, std::int64_t key,
                  std::vector<std::uint8_t> keep) {
  if (batch < 1 || heads < 1 || query < 0 || key < 0 ||
      index(batch) * index(heads) * index(query) * index(key) != keep.size()) {
    throw ShapeError(
        fmt::format("mask: {} flags do not make a mask of [batch {}, heads {}, query {}, key {}]",
                    keep.size(), batch, heads, query, key));
  }
  normalize(keep);
  Mask mask;
  mask.customs_.push_back({batch, heads, query, key, std::move(keep)});
  return mask;
}

Mask Mask::from_ignore(std::int64_t query, std::int64_t key, std::span<const std::uint8_t> ignore) {
  require_square(query, key, ignore.size());
  std::vector<std::uint8_t> keep(ignore.size());
  std::transform(ignore.begin(), ignore.end(), keep.begin(),
                 [](std::uint8_t flag) -> std::uint8_t { return flag == 0; });
  return custom(1, 1, query, key, std::move(keep));
}

Mask Mask::from_additive(std::int64_t query, std::int64_t key, std::span<const float> additive) {
  require_square(query, key, additive.size());
  std::vector<std::uint8_t> keep(additive.size());
  for (std::size_t i = 0; i < additive.size(); ++i) {
    const bool ignored = std::isinf(additive[i]) && additive[i] < 0;
    if (!ignored && additive[i] != 0.0f) {
      throw ValueError(fmt::format(
          "mask: the additive mask holds {} at [{}, {}], expected 0 (keep) or -inf (ignore)",
          additive[i], i / index(key), i % index(key)));
    }
    keep[i] = !ignored;
  }
  return custom(1, 1, query, key, std::move(keep));
}

Mask& Mask::operator&=(const Mask& other) {
  if (&other == this) return *this;
  if (padding_batch_ != 0 && other.padding_batch_ != 0) {
    if (padding_batch_ != other.padding_batch_ || padding_.size() != other.padding_.size()) {
      throw ShapeError(fmt::format(
          "mask: padding of {} examples and {} flags does not combine with {} examples and {} "
          "flags",
          padding_batch_, padding_.size(), other.padding_batch_, other.padding_.size()));
    }
    intersect(padding_, other.padding_);
  } else if (other.padding_batch_ != 0) {
    padding_batch_ = other.padding_batch_;
    padding_ = other.padding_;
  }
  if (documents_batch_ != 0 && other.documents_batch_ != 0) {
    if (documents_batch_ != other.documents_batch_ ||
        documents_.size() != other.documents_.size()) {
      throw ShapeError(fmt::format("mask: documents of [{} keys in {}] and [{} keys in {}]",
                                   documents_.size(), documents_batch_, other.documents_.size(),
                                   other.documents_batch_));
    }
    documents_ = common_documents(documents_, other.documents_);
  } else if (other.documents_batch_ != 0) {
    documents_batch_ = other.documents_batch_;
    documents_ = other.documents_;
  }
  causal_ = causal_ || other.causal_;
  if (other.prefix_ >= 0) prefix_ = prefix_ < 0 ? other.prefix_ : std::min(prefix_, other.prefix_);
  for (const MaskPattern& pattern : other.patterns_)
    if (std::ranges::find(patterns_, pattern) == patterns_.end()) patterns_.push_back(pattern);
  if (other.window_ != 0) window_ = window_ == 0 ? other.window_ : std::min(window_, other.window_);
  for (const Custom& part : other.customs_) {
    const auto same = std::find_if(customs_.begin(), customs_.end(), [&](const Custom& mine) {
      return mine.batch == part.batch && mine.heads == part.heads && mine.query == part.query &&
             mine.key == part.key;
    });
    if (same == customs_.end()) {
      customs_.push_back(part);
    } else {
      intersect(same->keep, part.keep);
    }
  }
  return *this;
}

void Mask::check(std::int64_t batch, std::int64_t heads, std::int64_t query,
                 std::int64_t key) const {
  if (padding_batch_ != 0 &&
      (padding_batch_ != batch || padding_.size() != index(batch) * index(key))) {
    throw ShapeError(
        fmt::format("mask: padding of [batch {}, key {}] does not fit [batch {}, key {}]",
                    padding_batch_, padding_.size() / index(padding_batch_), batch, key));
  }
  if (documents_batch_ != 0 &&
      (documents_batch_ != batch || documents_.size() != index(batch) * index(key))) {
    throw ShapeError(
        fmt::format("mask: documents of [batch {}, key {}] do not fit [batch {}, key {}]",
                    documents_batch_, documents_.size() / index(documents_batch_), batch, key));
  }
  for (const Custom& part : customs_) {
    if ((part.batch != batch && part.batch != 1) || (part.heads != heads && part.heads != 1) ||
        part.query != query || part.key != key) {
      throw ShapeError(fmt::format(
          "mask: [{}, {}, {}, {}] does not fit scores of [batch {}, heads {}, query {}, key {}]",
          part.batch, part.heads, part.query, part.key, batch, heads, query, key));
    }
  }
}

// With p = i + key - query, the position of the query among the keys: window keeps |j - p| < width,
// causal j <= p, prefix j <= p or j < prefix.
Mask::Range Mask::band(std::int64_t i, std::int64_t query, std::int64_t key) const {
  const std::int64_t p = i + key - query;
  Range range{0, key};
  if (causal_) range.end = p + 1;
  if (prefix_ >= 0) range.end = std::min(range.end, std::max(p + 1, prefix_));
  if (window_ != 0) {
    // Compared before adding, since a width may be as large as its type.
    if (window_ <= p) range.begin = p - window_ + 1;
    if (window_ < key - p) range.end = std::min(range.end, p + window_);
  }
  range.end = std::clamp<std::int64_t>(range.end, 0, key);
  return range;
}

bool Mask::keeps(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t query,
                 std::int64_t key) const {
  const Range range = band(i, query, key);
  std::uint8_t keep = j >= range.begin && j < range.end;
  if (keep != 0 && !is_band()) intersect_row(b, h, i, query, key, j, {&keep, 1});
  return keep != 0;
}

std::int64_t Mask::fill_row(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t query,
                            std::int64_t key, std::span<std::uint8_t> keep,
                            std::int64_t first) const {
  const auto count = static_cast<std::int64_t>(keep.size());
  const Range range = band(i, query, key);
  const std::int64_t begin = std::clamp<std::int64_t>(range.begin - first, 0, count);
  const std::int64_t end = std::clamp<std::int64_t>(range.end - first, begin, count);
  std::fill_n(keep.begin(), begin, std::uint8_t{0});
  std::fill(keep.begin() + begin, keep.begin() + end, std::uint8_t{1});
  std::fill(keep.begin() + end, keep.end(), std::uint8_t{0});
  if (is_band() || begin == end) return end - begin;
  const std::span<std::uint8_t> inside = keep.subspan(index(begin), index(end - begin));
  intersect_row(b, h, i, query, key, first + begin, inside);
  return std::ranges::count(inside, std::uint8_t{1});
}

void Mask::intersect_row(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t query,
                         std::int64_t key, std::int64_t first, std::span<std::uint8_t> keep) const {
  const std::int64_t p = i + key - query;
  const auto intersect_with = [&](const std::uint8_t* flags) {
    for (std::size_t j = 0; j < keep.size(); ++j) keep[j] &= flags[j];
  };
  if (!padding_.empty()) intersect_with(padding_.data() + b * key + first);
  for (const Custom& part : customs_) intersect_with(part.keep.data() + part.row(b, h, i) + first);
  if (!documents_.empty()) {
    const std::int32_t* document = documents_.data() + b * key;
    for (std::size_t j = 0; j < keep.size(); ++j)
      keep[j] &= p >= 0 && document[first + static_cast<std::int64_t>(j)] == document[p];
  }
  if (patterns_.empty()) return;
  std::vector<std::uint8_t> flags(keep.size());
  for (const MaskPattern& pattern : patterns_) {
    pattern.fill(p, first, flags);
    intersect_with(flags.data());
  }
}

std::int64_t Mask::Custom::row(std::int64_t b, std::int64_t h, std::int64_t i) const {
  const std::int64_t own_b = batch == 1 ? 0 : b;
  const std::int64_t own_h = heads == 1 ? 0 : h;
  return ((own_b * heads + own_h) * query + i) * key;
}

}  // namespace attune
