#include "app/views/status_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "app/state/servers_log.hpp"
#include "app/views/figures.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

using Align = TextTable::Align;

constexpr std::size_t kBriefRows = 20;  // of a summary's list

/// One line of a list, and when it was true.
struct Item {
  JsonView of;
  std::optional<double> now;

  /// How long ago a time was.
  [[nodiscard]] std::optional<double> since(const JsonView& time) const {
    const auto at = time.number();
    return at && now ? std::optional(std::max(*now - *at, 0.0)) : std::nullopt;
  }
};

/// A column of a list, and how a cell of it is made.
struct ListColumn {
  const char* header;
  Align align;
  Detail from;  // brief: it is always there
  std::function<TableCell(const Item&)> cell;
};

/// A text from the document, "-" for none.
std::string word(const JsonView& value) {
  const std::string text = value.text();
  return text.empty() ? "-" : text;
}

std::string flag(const JsonView& value) {
  return value.is_true() ? "yes" : value.is_false() ? "no" : "-";
}

auto texts(const char* key) {
  return [key](const Item& item) { return TableCell{word(item.of[key])}; };
}
auto flags(const char* key) {
  return [key](const Item& item) { return TableCell{flag(item.of[key])}; };
}
auto figures(const char* key, std::string (*text_of)(std::optional<double>)) {
  return [key, text_of](const Item& item) { return TableCell{text_of(item.of[key].number())}; };
}
auto ages(const char* key) {
  return [key](const Item& item) { return TableCell{short_age_text(item.since(item.of[key]))}; };
}

/// A count that should be 0.
auto faults(const char* key) {
  return [key](const Item& item) {
    const auto count = item.of[key].number();
    return TableCell{count_text(count), count.value_or(0) > 0 ? Tone::warning : Tone::plain};
  };
}

TableCell oldest_of_requests(const Item& item) {
  const auto oldest = item.of["oldest"].number();
  return {short_age_text(oldest), state::is_slow(oldest) ? Tone::bad : Tone::plain};
}

TableCell state_of_server(const Item& item) {
  const JsonView& server = item.of;
  if (server["up"].is_false()) return {"down", Tone::bad};
  const std::string state = word(server["state"]);
  return {state, state == "unknown" || state == "-" ? Tone::warning : Tone::good};
}

TableCell state_of_rule(const Item& item) {
  const JsonView& rule = item.of;
  if (rule["ready"].is_false()) return {"NOT READY", Tone::bad};
  const double missing = rule["not_ready_collections"].number().value_or(0);
  if (missing > 0) return {count_text(missing) + " not ready", Tone::bad};
  if (!rule["warning"].text().empty()) return {"runs out", Tone::warning};
  if (rule["unguarded_collections"].number().value_or(0) > 0) {
    return {"no unique index", Tone::warning};
  }
  return rule["ready"].is_true() ? TableCell{"ready", Tone::good} : TableCell{"-"};
}

/// What is left of the numbers, or how full the space of random ones is.
TableCell left_of_rule(const Item& item) {
  const auto fill = item.of["fill"].number();
  if (!fill) return {left_text(item.of["left"].number())};
  return {fmt::format("{:.1f} % full", std::clamp(*fill, 0.0, 1.0) * 100)};
}

/// Reasons and counts of the upserts without a value: "in_aggregate 3".
TableCell forwarded_of_rule(const Item& item) {
  const JsonView forwarded = item.of["forwarded"];
  std::string text;
  for (const std::string& reason : forwarded.keys()) {
    if (forwarded[reason].number().value_or(0) <= 0) continue;
    text += (text.empty() ? "" : ", ") + reason + " " + count_text(forwarded[reason].number());
  }
  return {text.empty() ? "-" : text};
}

std::vector<ListColumn> columns_of_servers() {
  return {
      {"SERVER", Align::left, Detail::brief, texts("server")},
      {"LISTENER", Align::left, Detail::full, texts("listener")},
      {"STATE", Align::left, Detail::brief, state_of_server},
      {"FOR", Align::right, Detail::brief, ages("since")},
      {"RELEASE", Align::left, Detail::full, texts("release")},
      {"LOGINS", Align::left, Detail::full, flags("logins")},
      {"CLIENTS", Align::right, Detail::brief, figures("clients", count_text)},
      {"IN FLIGHT", Align::right, Detail::brief, figures("in_flight", count_text)},
      {"OLDEST", Align::right, Detail::brief, oldest_of_requests},
      {"REQUESTS", Align::right, Detail::brief, figures("requests", count_text)},
      {"REPLIES", Align::right, Detail::full, figures("replies", count_text)},
      {"P50", Align::right, Detail::brief, figures("p50", latency_text)},
      {"P99", Align::right, Detail::brief, figures("p99", latency_text)},
      {"ROUND TRIP", Align::right, Detail::full, figures("round_trip", latency_text)},
      {"SENT", Align::right, Detail::full, figures("bytes_sent", bytes_text)},
      {"RECEIVED", Align::right, Detail::full, figures("bytes_received", bytes_text)},
      {"FAILURES", Align::right, Detail::full, faults("connect_failures")},
  };
}

std::vector<ListColumn> columns_of_rules() {
  return {
      {"NS", Align::left, Detail::brief, texts("ns")},
      {"FIELD", Align::left, Detail::brief, texts("field")},
      {"STRATEGY", Align::left, Detail::brief, texts("strategy")},
      {"STATE", Align::left, Detail::brief, state_of_rule},
      {"VALUES", Align::right, Detail::brief, figures("values", count_text)},
      {"/S", Align::right, Detail::brief, figures("values_per_second", rate_text)},
      {"WAIT", Align::right, Detail::brief, figures("waiting", count_text)},
      {"OLDEST", Align::right, Detail::full, figures("oldest_waiting", age_text)},
      {"DUP", Align::right, Detail::brief, figures("duplicates", count_text)},
      {"RESENT", Align::right, Detail::full, figures("resent", count_text)},
      {"GIVEN UP", Align::right, Detail::full, faults("given_up")},
      {"LAST VALUE", Align::right, Detail::full, ages("last_value")},
      {"NEXT", Align::right, Detail::brief, figures("next", count_text)},
      {"HELD", Align::right, Detail::full, figures("held", count_text)},
      {"LEFT", Align::right, Detail::brief, left_of_rule},
      {"FULL BY HOUR'S RATE", Align::right, Detail::full, figures("full_at_hour_rate", date_text)},
      {"FULL BY DAY'S RATE", Align::right, Detail::full, figures("full_at_day_rate", date_text)},
      {"WITHOUT A VALUE", Align::left, Detail::full, forwarded_of_rule},
  };
}

std::vector<ListColumn> columns_of_clients() {
  const auto plain_number = [](const Item& item) {
    const auto number = item.of["id"].number();
    return TableCell{number ? fmt::format("{:.0f}", *number) : "-"};
  };
  const auto port = [](const Item& item) {
    const auto number = item.of["port"].number();
    return TableCell{number ? fmt::format("{:.0f}", *number) : "-"};
  };
  const auto tls = [](const Item& item) { return TableCell{flag(item.of["tls"])}; };
  return {
      {"ID", Align::right, Detail::brief, plain_number},
      {"ADDRESS", Align::left, Detail::brief, texts("address")},
      {"APPLICATION", Align::left, Detail::brief, texts("application")},
      {"USER", Align::left, Detail::brief, texts("user")},
      {"DRIVER", Align::left, Detail::brief, texts("driver")},
      {"SERVER", Align::left, Detail::brief, texts("server")},
      {"FOR", Align::right, Detail::brief, ages("since")},
      {"OLDEST", Align::right, Detail::brief, oldest_of_requests},
      {"REQUESTS", Align::right, Detail::brief, figures("requests", count_text)},
      {"/S", Align::right, Detail::brief, figures("requests_per_second", rate_text)},
      {"DOCUMENTS", Align::right, Detail::brief, figures("documents", count_text)},
      {"/S", Align::right, Detail::brief, figures("documents_per_second", rate_text)},
      {"VALUES", Align::right, Detail::brief, figures("values", count_text)},
      {"IN TXN", Align::right, Detail::brief, figures("transactions", count_text)},
      {"OLDEST TXN", Align::right, Detail::full, figures("oldest_transaction", age_text)},
      {"RECEIVED", Align::right, Detail::brief, figures("bytes_received", bytes_text)},
      {"SENT", Align::right, Detail::brief, figures("bytes_sent", bytes_text)},
      {"MEMORY", Align::right, Detail::brief, figures("memory", bytes_text)},
      {"TLS", Align::left, Detail::brief, tls},
      {"PORT", Align::right, Detail::brief, port},
  };
}

std::vector<ListColumn> columns_of_applications() {
  return {
      {"APPLICATION", Align::left, Detail::brief, texts("application")},
      {"CLIENTS", Align::right, Detail::brief, figures("connections", count_text)},
      {"REQUESTS/S", Align::right, Detail::brief, figures("requests_per_second", rate_text)},
      {"DOCUMENTS/S", Align::right, Detail::brief, figures("documents_per_second", rate_text)},
      {"OLDEST", Align::right, Detail::brief, oldest_of_requests},
      {"IN TXN", Align::right, Detail::brief, figures("transactions", count_text)},
      {"OLDEST TXN", Align::right, Detail::brief, figures("oldest_transaction", age_text)},
      {"MEMORY", Align::right, Detail::brief, figures("memory", bytes_text)},
  };
}

std::vector<ListColumn> columns_of_proxies() {
  return {
      {"HOST", Align::left, Detail::brief, texts("host")},
      {"VERSION", Align::left, Detail::brief, texts("version")},
      {"RULES", Align::left, Detail::brief, texts("rules_hash")},
      {"FOR", Align::right, Detail::brief, ages("since")},
      {"SEEN BEFORE", Align::right, Detail::brief, ages("seen")},
  };
}

/// The columns of a list that there are at this detail.
class List {
 public:
  List(std::vector<ListColumn> columns, Detail detail) : columns_(std::move(columns)) {
    if (detail == Detail::brief) {
      std::erase_if(columns_, [](const ListColumn& each) { return each.from == Detail::full; });
    }
  }

  [[nodiscard]] TextTable empty_table() const {
    std::vector<TextTable::Column> headers;
    headers.reserve(columns_.size());
    for (const ListColumn& each : columns_) headers.push_back({each.header, each.align});
    return TextTable(std::move(headers));
  }
  void add_to(TextTable& table, const Item& item) const {
    std::vector<TableCell> cells;
    cells.reserve(columns_.size());
    for (const ListColumn& each : columns_) cells.push_back(each.cell(item));
    table.add(std::move(cells));
  }

 private:
  std::vector<ListColumn> columns_;
};

/// Those of a list that are shown, and how many are not.
std::vector<JsonView> shown_of(std::vector<JsonView> all, Detail detail) {
  if (detail == Detail::brief && all.size() > kBriefRows) all.resize(kBriefRows);
  return all;
}

std::string others_text(double total, std::size_t shown, const char* option) {
  const double others = total - static_cast<double>(shown);
  if (others < 1) return {};
  return "  " + and_more(static_cast<std::uint64_t>(others)) +
         (*option == '\0' ? "" : std::string(": status ") + option) + '\n';
}

void add_note_unless_empty(TextTable& table, const std::string& text, Tone tone) {
  if (!text.empty()) table.add_note(text, tone);
}

/// What stands in the way of connections to a server.
void add_notes_on_server(TextTable& table, const Item& item, Detail detail) {
  add_note_unless_empty(table, item.of["fault"].text(), Tone::bad);
  const JsonView failure = item.of["last_failure"];
  const bool is_told = detail == Detail::full || item.of["up"].is_false();
  if (!is_told || failure["reason"].text().empty()) return;
  table.add_note(
      "last failure " + age_text(item.since(failure["at"])) + " ago: " + failure["reason"].text(),
      Tone::warning);
}

/// `application`: the only one; empty: all.
std::string applications_text(const JsonView& clients, const Terminal& terminal,
                              const std::string& application) {
  const List list(columns_of_applications(), Detail::full);
  TextTable table = list.empty_table();
  std::vector<JsonView> all = clients["applications"].items();
  const JsonView others = clients["other_applications"];
  if (others.is_object()) all.push_back(others);
  if (!application.empty()) {
    std::erase_if(all, [&](const JsonView& each) {
      return each["applications"].number() || each["application"].text() != application;
    });
  }
  if (all.empty()) return {};
  for (const JsonView& each : all) list.add_to(table, {each, std::nullopt});
  return terminal.heading("Applications") + table.text(terminal) + '\n';
}

}  // namespace

std::string servers_text(const JsonView& status, const Terminal& terminal, Detail detail) {
  const List list(columns_of_servers(), detail);
  TextTable table = list.empty_table();
  const std::vector<JsonView> all = status["servers"].items();
  const std::vector<JsonView> shown = shown_of(all, detail);
  for (const JsonView& each : shown) {
    const Item item{each, status["now"].number()};
    list.add_to(table, item);
    add_notes_on_server(table, item, detail);
  }
  return terminal.heading("Servers") + table.text(terminal) +
         others_text(static_cast<double>(all.size()), shown.size(), "--servers");
}

std::string rules_text(const JsonView& status, const Terminal& terminal, Detail detail) {
  const List list(columns_of_rules(), detail);
  TextTable table = list.empty_table();
  const std::vector<JsonView> all = status["rules"].items();
  if (all.empty()) return terminal.heading("Rules") + "  none\n";
  const std::vector<JsonView> shown = shown_of(all, detail);
  for (const JsonView& each : shown) {
    const Item item{each, status["now"].number()};
    list.add_to(table, item);
    add_note_unless_empty(table, each["reason"].text(), Tone::bad);
    add_note_unless_empty(table, each["warning"].text(), Tone::warning);
  }
  const double total = status["rules_total"].number().value_or(static_cast<double>(all.size()));
  return terminal.heading("Rules") + table.text(terminal) +
         others_text(total, shown.size(), detail == Detail::brief ? "--rules" : "");
}

std::string clients_text(const JsonView& status, const Terminal& terminal,
                         const std::string& application) {
  const List list(columns_of_clients(), Detail::full);
  TextTable table = list.empty_table();
  std::size_t shown = 0;
  for (const JsonView& each : status["clients"]["list"].items()) {
    if (!application.empty() && each["application"].text() != application) continue;
    list.add_to(table, {each, status["now"].number()});
    ++shown;
  }
  const double total = status["clients"]["total"].number().value_or(static_cast<double>(shown));
  const std::string title =
      "Clients" + (application.empty() ? "" : " of " + printable(application));
  if (shown == 0) return terminal.heading(title) + "  none\n";
  return applications_text(status["clients"], terminal, application) + terminal.heading(title) +
         table.text(terminal) + (application.empty() ? others_text(total, shown, "") : "");
}

std::string proxies_text(const JsonView& status, const Terminal& terminal) {
  const List list(columns_of_proxies(), Detail::full);
  TextTable table = list.empty_table();
  std::vector<JsonView> others = status["proxies"].items();
  std::erase_if(others, [](const JsonView& each) { return each["self"].is_true(); });
  if (others.empty()) return {};
  const std::vector<JsonView> shown = shown_of(others, Detail::brief);
  for (const JsonView& each : shown) list.add_to(table, {each, status["now"].number()});
  return terminal.heading("Other proxies") + table.text(terminal) +
         others_text(static_cast<double>(others.size()), shown.size(), "");
}

}  // namespace idproxy::app::views
