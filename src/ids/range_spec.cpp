#include "idproxy/ids/range_spec.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "idproxy/ids/refill_pace.hpp"

namespace idproxy::ids {

std::string range_key(std::int64_t number) {
  return std::string(kRangePrefix) + std::to_string(number);
}

std::optional<std::int64_t> range_number(std::string_view key) {
  if (!key.starts_with(kRangePrefix)) return std::nullopt;
  const std::string_view digits = key.substr(kRangePrefix.size());
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  // Writing the number again checks signs and leading zeros.
  if (read.ec != std::errc{} || number < 0 || range_key(number) != key) return std::nullopt;
  return number;
}

CounterSpec counter_of(const RangesSpec& spec, const RangeState& range) {
  CounterSpec counter = spec.counter;
  counter.place.key = range_key(range.number);
  counter.start = range.first;
  counter.max = range.last;
  if (spec.pick == RangesSpec::Pick::sticky) return counter;
  // The RangeSet says how many numbers to fetch, and from where: a range must not fetch ahead.
  const bool is_auto = !spec.counter.block.size;
  counter.block = {.size = 1, .prefetch = 0};
  if (is_auto) counter.block.idle = RefillPace::kBlockLasts;
  return counter;
}

// ---- the documents -----------------------------------------------------------------------------

namespace {

using Int64 = std::numeric_limits<std::int64_t>;
using RangeLayout = RangesSpec::Layout;
using Documents = std::span<const RangeDocument>;

std::string quoted(std::int64_t number) {
  return "'" + range_key(number) + "'";
}

/// Where a range stands; behind its end if it cannot give numbers.
std::int64_t next_of(const RangeDocument& document, std::int64_t last) {
  return document.count ? std::min(*document.count, last + 1) : last + 1;
}

bool fits(const RangeDocument& document, const RangeLayout& layout) {
  return document.number < layout.count && document.max_value == layout.last_of(document.number);
}

/// The layout that tells where ranges begin, and how many there are; nothing: the documents do.
std::optional<RangeLayout> layout_of(const RangesSpec& spec, Documents documents) {
  if (spec.layout || !spec.create) return spec.layout;
  const RangeLayout standard;
  const bool is_part = std::ranges::all_of(documents, [&](const RangeDocument& each) {
    return each.number != 0 && fits(each, standard);
  });
  return is_part ? std::optional(standard) : std::nullopt;
}

std::string fault_of(const RangesSpec& spec, const std::optional<RangeLayout>& layout,
                     Documents documents) {
  if (!layout && documents.empty()) {
    return "has no document " + quoted(0) + ", and `create` is false";
  }
  for (const RangeDocument& each : documents) {
    if (!each.max_value || *each.max_value == Int64::max()) {
      return "has a MAX_VALUE in " + quoted(each.number) +
             " that is not an integer below 9223372036854775807";
    }
    if (layout && each.number >= layout->count) {
      return "has " + quoted(each.number) + ", but `ranges` has only " +
             std::to_string(layout->count);
    }
  }
  const bool is_short = layout && documents.size() < static_cast<std::size_t>(layout->count);
  if (!is_short || spec.create) return {};
  return "has " + std::to_string(documents.size()) + " of " + std::to_string(layout->count) +
         " ranges, and `create` is false";
}

std::vector<RangeState> ranges_of(const std::optional<RangeLayout>& layout, Documents documents) {
  std::vector<RangeState> ranges;
  ranges.reserve(documents.size());
  for (const RangeDocument& each : documents) {
    const std::int64_t last = each.max_value.value_or(0);
    const std::int64_t next = next_of(each, last);
    ranges.push_back({each.number, layout ? layout->first_of(each.number) : next, last, next});
  }
  std::ranges::sort(ranges, {},
                    [&](const RangeState& range) { return std::pair(range.last, range.number); });
  for (std::size_t i = 1; !layout && i < ranges.size(); ++i) {
    ranges[i].first = ranges[i - 1].last + 1;
  }
  return ranges;
}

std::string overlap_in(std::span<const RangeState> ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RangeState& range = ranges[i];
    if (i > 0 && ranges[i - 1].last >= range.first) {
      return "has ranges that overlap: " + quoted(ranges[i - 1].number) + " ends with " +
             std::to_string(ranges[i - 1].last) + ", and " + quoted(range.number) +
             " begins with " + std::to_string(range.first);
    }
    const bool ends_before = range.last + 1 < range.first;
    if (!ends_before && range.next >= range.first) continue;
    return "has a " + std::string(ends_before ? "MAX_VALUE" : "COUNT") + " in " +
           quoted(range.number) + ", " + std::to_string(ends_before ? range.last : range.next) +
           ", that lies before its range, which begins with " + std::to_string(range.first);
  }
  return {};
}

/// From the last to the first.
std::vector<RangeState> missing_of(const RangeLayout& layout, Documents documents) {
  std::vector<bool> is_there(static_cast<std::size_t>(layout.count));
  for (const RangeDocument& each : documents)
    is_there[static_cast<std::size_t>(each.number)] = true;
  std::vector<RangeState> missing;
  for (std::int64_t i = layout.count; i-- > 0;) {
    if (is_there[static_cast<std::size_t>(i)]) continue;
    missing.push_back({i, layout.first_of(i), layout.last_of(i), layout.first_of(i)});
  }
  return missing;
}

}  // namespace

RangeFindings check_ranges(const RangesSpec& spec, std::span<const RangeDocument> documents) {
  RangeFindings findings;
  const std::optional<RangeLayout> layout = layout_of(spec, documents);
  findings.fault = fault_of(spec, layout, documents);
  if (!findings.fault.empty()) return findings;
  findings.ranges = ranges_of(layout, documents);
  findings.fault = overlap_in(findings.ranges);
  if (findings.fault.empty() && layout) findings.missing = missing_of(*layout, documents);
  return findings;
}

}  // namespace idproxy::ids
