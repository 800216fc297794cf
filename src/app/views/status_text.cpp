#include "app/views/status_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "app/views/figures.hpp"
#include "app/views/status_lists.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::app::views {
namespace {

using Align = TextTable::Align;

/// A text from the document, "-" for none.
std::string text_or_dash(const JsonView& value) {
  const std::string text = printable(value.text());
  return text.empty() ? "-" : text;
}

/// How long before `now` of the document a time was.
std::string ago(const JsonView& status, const JsonView& time) {
  const auto now = status["now"].number();
  const auto at = time.number();
  return age_text(now && at ? std::optional(std::max(*now - *at, 0.0)) : std::nullopt);
}

std::string first_lines(const JsonView& status, const Terminal& terminal) {
  const std::string phase = text_or_dash(status["phase"]);
  std::string text =
      terminal.coloured("mongo-idproxy " + text_or_dash(status["version"]), Tone::strong) + ", " +
      terminal.coloured(phase, phase == "ready" ? Tone::good : Tone::warning) + ", up " +
      ago(status, status["started"]);
  if (const auto pid = status["pid"].number()) text += fmt::format(", pid {:.0f}", *pid);
  text += '\n';
  const JsonView configuration = status["configuration"];
  if (configuration["file"].text().empty()) return text;
  text += printable(configuration["file"].text()) + ", read " + ago(status, configuration["read"]) +
          " ago\n";
  return text;
}

std::string wrong_text(const JsonView& status, const Terminal& terminal) {
  constexpr std::size_t kIndent = 11;
  const std::vector<JsonView> wrong = status["wrong"].items();
  if (wrong.empty()) return terminal.coloured("Nothing is wrong", Tone::good) + '\n';
  std::string text = terminal.heading("Wrong now");
  for (const JsonView& each : wrong) {
    const bool is_error = each["level"].text() == "error";
    text +=
        terminal.wrapped(is_error ? "  error    " : "  warning  ", printable(each["text"].text()),
                         kIndent, is_error ? Tone::bad : Tone::warning);
    for (const char* key : {"remedy", "link"}) {
      const std::string more = printable(each[key].text());
      if (!more.empty()) text += terminal.wrapped(std::string(kIndent, ' '), more, kIndent);
    }
  }
  return text;
}

std::string limits_text(const JsonView& status, const Terminal& terminal) {
  TextTable table({{""},
                   {"NOW", Align::right},
                   {"MOST", Align::right},
                   {"IN 10 MIN", Align::right},
                   {"LIMIT", Align::right}});
  for (const Figure& each : kLimits.figures) {
    const Entry limit{status["limits"][each.key], std::nullopt};
    const auto text = [&](const char* part) { return each.unit.terminal(limit, part); };
    table.add({{std::string(each.line.header)},
               {text("current"), tone_of(each, limit)},
               {text("most")},
               {text("most_lately")},
               {text("limit")}});
  }
  return terminal.heading("Limits") + table.text(terminal);
}

std::string store_text(const JsonView& status, const Terminal& terminal) {
  const JsonView store = status["store"];
  if (!store.is_object()) return {};
  const bool is_down = store["up"].is_false();
  std::string text = "  " + terminal.coloured(is_down ? "does not answer" : "answers",
                                              is_down ? Tone::bad : Tone::good);
  if (const std::string reason = printable(store["reason"].text()); !reason.empty()) {
    text += ": " + reason;
  }
  return terminal.heading("Id store") + text + ", " + count_text(store["round_trips"].number()) +
         " round trips, p50 " + latency_text(store["p50"].number()) + ", p99 " +
         latency_text(store["p99"].number()) + '\n';
}

/// Right-aligned in `width` columns, at least one blank in front.
std::string watch_cell(std::string_view text, std::size_t width) {
  return fmt::format(" {:>{}}", text, width - 1);
}

struct WatchColumn {
  const char* header;
  std::size_t width;
};
constexpr WatchColumn kWatchColumns[] = {
    {"time", 9}, {"clients", 9}, {"req/s", 10},     {"values/s", 10}, {"dup/s", 7},
    {"p50", 10}, {"p99", 10},    {"in flight", 10}, {"waiting", 9},
};

}  // namespace

std::string summary_text(const JsonView& status, const Terminal& terminal) {
  const bool serves = status["servers"].is_array();  // not before the end of its start
  if (!serves) return first_lines(status, terminal);
  std::string text = first_lines(status, terminal) + '\n' + wrong_text(status, terminal) + '\n' +
                     servers_text(status, terminal, Detail::brief) + '\n' +
                     rules_text(status, terminal, Detail::brief) + '\n' +
                     limits_text(status, terminal);
  if (const std::string store = store_text(status, terminal); !store.empty()) text += '\n' + store;
  if (const std::string others = proxies_text(status, terminal); !others.empty()) {
    text += "\n" + others;
  }
  return text;
}

bool has_errors(const JsonView& status) {
  const std::vector<JsonView> wrong = status["wrong"].items();
  return std::ranges::any_of(wrong,
                             [](const JsonView& each) { return each["level"].text() == "error"; });
}

std::string watch_headers() {
  std::string line;
  for (const auto& [header, width] : kWatchColumns) line += watch_cell(header, width);
  return line.substr(1) + '\n';
}

std::string watch_line(const JsonView& status) {
  const JsonView history = status["history"];
  const JsonView limits = status["limits"];
  const auto lately = [&](const char* key) { return history[key].last().number(); };
  const std::string cells[] = {
      clock_text(status["now"].number()),
      count_text(status["clients"]["total"].number()),
      rate_text(lately("requests")),
      rate_text(lately("values")),
      rate_text(lately("duplicates")),
      latency_text(lately("p50")),
      latency_text(lately("p99")),
      count_text(limits["in_flight"]["current"].number()),
      count_text(limits["waiting"]["current"].number()),
  };
  static_assert(std::size(cells) == std::size(kWatchColumns));
  std::string line;
  for (std::size_t i = 0; i < std::size(cells); ++i) {
    line += watch_cell(cells[i], kWatchColumns[i].width);
  }
  return line.substr(1) + '\n';
}

}  // namespace idproxy::app::views
