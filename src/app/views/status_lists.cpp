#include "app/views/status_lists.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "app/views/columns.hpp"
#include "app/views/figures.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

using Align = TextTable::Align;

constexpr std::size_t kBriefRows = 20;  // of a summary's list

/// The columns of a table that there are at this detail.
class List {
 public:
  List(const FigureTable& table, Detail detail) {
    for (const Figure& each : table.figures) {
      if (!each.line.header.empty()) columns_.push_back(&each);
    }
    for (const Figure& each : table.figures) {
      if (!each.line.behind.empty()) move(each);
    }
    if (detail == Detail::full) return;
    std::erase_if(columns_, [](const Figure* each) { return each->line.from == Detail::full; });
  }

  [[nodiscard]] TextTable empty_table() const {
    std::vector<TextTable::Column> headers;
    for (const Figure* each : columns_) {
      const bool is_right = each->unit.kind >= Unit::Kind::number;
      headers.push_back({std::string(each->line.header), is_right ? Align::right : Align::left});
    }
    return TextTable(std::move(headers));
  }
  void add_to(TextTable& table, const Entry& entry) const {
    std::vector<TableCell> cells;
    cells.reserve(columns_.size());
    for (const Figure* each : columns_) {
      cells.push_back({each->unit.terminal(entry, each->key), tone_of(*each, entry)});
    }
    table.add(std::move(cells));
  }

 private:
  void move(const Figure& figure) {
    std::erase(columns_, &figure);
    const auto before = std::ranges::find(columns_, figure.line.behind, &Figure::key);
    columns_.insert(before + 1, &figure);
  }

  std::vector<const Figure*> columns_;
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
void add_notes_on_server(TextTable& table, const Entry& entry, Detail detail) {
  add_note_unless_empty(table, entry.of["fault"].text(), Tone::bad);
  const JsonView failure = entry.of["last_failure"];
  const bool is_told = detail == Detail::full || entry.of["up"].is_false();
  if (!is_told || failure["reason"].text().empty()) return;
  table.add_note("last failure " + age_text(Entry{failure, entry.now}.since("at")) +
                     " ago: " + failure["reason"].text(),
                 Tone::warning);
}

/// `application`: the only one; empty: all.
std::string applications_text(const JsonView& clients, const Terminal& terminal,
                              const std::string& application) {
  const List list(kApplications, Detail::full);
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
  const List list(kServers, detail);
  TextTable table = list.empty_table();
  const std::vector<JsonView> all = status["servers"].items();
  const std::vector<JsonView> shown = shown_of(all, detail);
  for (const JsonView& each : shown) {
    const Entry entry{each, status["now"].number()};
    list.add_to(table, entry);
    add_notes_on_server(table, entry, detail);
  }
  return terminal.heading("Servers") + table.text(terminal) +
         others_text(static_cast<double>(all.size()), shown.size(), "--servers");
}

std::string rules_text(const JsonView& status, const Terminal& terminal, Detail detail) {
  const List list(kRules, detail);
  TextTable table = list.empty_table();
  const std::vector<JsonView> all = status["rules"].items();
  if (all.empty()) return terminal.heading("Rules") + "  none\n";
  const std::vector<JsonView> shown = shown_of(all, detail);
  for (const JsonView& each : shown) {
    const Entry entry{each, status["now"].number()};
    list.add_to(table, entry);
    add_note_unless_empty(table, each["reason"].text(), Tone::bad);
    add_note_unless_empty(table, each["warning"].text(), Tone::warning);
  }
  const double total = status["rules_total"].number().value_or(static_cast<double>(all.size()));
  return terminal.heading("Rules") + table.text(terminal) +
         others_text(total, shown.size(), detail == Detail::brief ? "--rules" : "");
}

std::string clients_text(const JsonView& status, const Terminal& terminal,
                         const std::string& application) {
  const List list(kClients, Detail::full);
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
  const List list(kProxies, Detail::full);
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
