#include "options.hpp"

#include <algorithm>
#include <charconv>

namespace idproxy::bench {
namespace {

using std::chrono_literals::operator""ms;

constexpr Effort kFullEffort{7, 200ms, 1000};
constexpr Effort kQuickEffort{3, 100ms, 300};

/// 0 if it is none, or too large.
int positive_number(const std::string& text) {
  constexpr int kMost = 1'000'000;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = error == std::errc{} && end == text.data() + text.size();
  return good && number > 0 && number <= kMost ? number : 0;
}

bool set(Options& options, const std::string& name, const std::string& value) {
  const auto program = std::ranges::find_if(
      kTargetKinds, [&](TargetKind kind) { return name == "--" + std::string(name_of(kind)); });
  if (program != kTargetKinds.end()) {
    options.programs[index_of(*program)] = value;
  } else if (name == "--only") {
    options.only = value;
  } else if (name == "--against") {
    options.against = value;
  } else if (name == "--tls" && (value == "1.2" || value == "1.3")) {
    options.tls = value == "1.2" ? TlsVersion::v1_2 : TlsVersion::v1_3;
  } else if (name == "--sides" && (value == "both" || value == "client")) {
    options.sides = value == "both" ? TlsSides::both : TlsSides::client;
  } else if (name == "--rounds" && positive_number(value) > 0) {
    options.effort.rounds = static_cast<std::size_t>(positive_number(value));
  } else if (name == "--seconds" && positive_number(value) > 0) {
    options.duration = std::chrono::seconds(positive_number(value));
  } else {
    return false;
  }
  return true;
}

void clear(Options& options, std::initializer_list<TargetKind> kinds) {
  for (const TargetKind kind : kinds) options.programs[index_of(kind)].clear();
}

}  // namespace

const char* const kUsage =
    "usage: idproxy_bench [--haproxy PROGRAM] [--nginx PROGRAM] [--envoy PROGRAM]\n"
    "                     [--relay PROGRAM] --idproxy PROGRAM\n"
    "                     [--tls 1.2|1.3] [--sides both|client] [--quick] [--rounds N] [--only "
    "WORK]\n"
    "       idproxy_bench --idproxy PROGRAM --against PROGRAM [--seconds N] [--only WORK]\n"
    "A program that is not named is not measured. With --tls only haproxy and mongo-idproxy are,\n"
    "on both sides, or with clients only,\n"
    "with --quick neither nginx nor envoy. --only measures only the row of this name, or those\n"
    "whose names contain it. --against compares two mongo-idproxy.\n";

std::optional<Options> parse(const std::vector<std::string>& words) {
  Options options;
  options.quick = std::ranges::count(words, "--quick") > 0;
  options.effort = options.quick ? kQuickEffort : kFullEffort;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--quick") continue;
    if (i + 1 == words.size() || !set(options, words[i], words[i + 1])) return std::nullopt;
    ++i;
  }
  if (options.programs[index_of(TargetKind::idproxy)].empty()) return std::nullopt;
  if (options.quick) clear(options, {TargetKind::nginx, TargetKind::envoy});
  if (options.tls) clear(options, {TargetKind::nginx, TargetKind::envoy, TargetKind::relay});
  return options;
}

}  // namespace idproxy::bench
